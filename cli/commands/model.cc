// starling model list, starling model show: the networks, and what they cost.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_flags.h"
#include "cli/commands/json.h"
#include "cli/commands/model_name.h"
#include "cli/shell/output.h"
#include "kernels/backend.h"
#include "models/spec.h"
#include "training/experiment/experiment.h"
#include "training/experiment/settings.h"
#include "training/replica/memory.h"
#include "training/replica/recipe.h"

namespace starling::cli {
namespace {

constexpr int kLargestBatch = 65'536;

int list(const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const std::string& name : models::model_names())
    entries.emplace_back(name, models::describe_model(name));
  if (arguments.has("--json")) {
    std::fputs(list_json("models", entries).c_str(), stdout);
    return kExitDone;
  }
  for (const auto& [name, description] : entries)
    std::fputs(fmt::format("{:<10}  {}\n", name, description).c_str(), stdout);
  return kExitDone;
}

Result<int> read_count(const Arguments& arguments, const std::string& flag, int default_value, int most) {
  const auto text = arguments.get(flag);
  if (!text) return default_value;
  const auto count = parse_number<int>(*text);
  if (!count || *count < 1 || *count > most) {
    return Error{flag + ": '" + *text + "' is not a whole number from 1 to " + std::to_string(most)};
  }
  return *count;
}

// "1x28x28": channels, height, width.
Result<models::Shape> read_shape(const std::string& text) {
  std::array<int, 3> extents{};
  std::string_view rest = text;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t x = i < 2 ? rest.find('x') : rest.size();
    const auto extent = parse_number<int>(rest.substr(0, x));
    if (x == std::string_view::npos || !extent || *extent < 1 || *extent > 4096) {
      return Error{"--input: '" + text +
                   "' is not CHANNELSxHEIGHTxWIDTH, each from 1 to 4096, for example 1x28x28"};
    }
    extents[i] = *extent;
    rest.remove_prefix(i < 2 ? x + 1 : x);
  }
  return models::Shape{extents[0], extents[1], extents[2]};
}

std::string shape_text(const models::Shape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

constexpr std::size_t kColumns = 11, kWords = 4;  // of which the first are words, set to the left
using Row = std::array<std::string, kColumns>;

// Each column as wide as what stands in it.
std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < kColumns; ++c) {
      text += c == 0 ? "" : "  ";
      text +=
          c < kWords ? fmt::format("{:<{}}", row[c], widths[c]) : fmt::format("{:>{}}", row[c], widths[c]);
    }
    text += "\n";
  }
  return text;
}

std::string bytes_text(std::size_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

// Of a table, where most would be "0 B".
std::string cell(std::size_t bytes) {
  return bytes == 0 ? "-" : bytes_text(bytes);
}

double flops_of(const models::Plan& plan) {
  double flops = 0;
  for (const models::LayerInfo& layer : plan.layers) flops += layer.flops_forward;
  return flops;
}

std::string layers_table(const models::Plan& plan, const training::TrainingMemory& memory) {
  std::vector<Row> rows = {{"layer", "kind", "reads", "output", "params", "flops", "weights", "gradients",
                            "optimizer", "activations", "workspace"}};
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const models::LayerInfo& layer = plan.layers[i];
    const training::LayerBytes& bytes = memory.layers[i];
    std::string reads = layer_name(plan, layer.from);
    if (layer.other != models::LayerInfo::kNone) reads += " + " + layer_name(plan, layer.other);
    const bool own = bytes.counted_at == static_cast<int>(i);
    rows.push_back(
        {layer.name, layer.kind == "global average pool" ? "global pool" : layer.kind, std::move(reads),
         shape_text(layer.output), std::to_string(layer.parameters), format_count(layer.flops_forward),
         cell(bytes.weights), cell(bytes.gradients), cell(bytes.optimizer),
         own ? cell(bytes.activations) : "in " + layer_name(plan, bytes.counted_at), cell(bytes.workspace)});
  }
  const auto shared = [&](const char* what, std::size_t activations, std::size_t workspace) {
    rows.push_back({"shared", what, "", "", "", "", "", "", "", cell(activations), cell(workspace)});
  };
  shared("batch", memory.batch, 0);
  shared("gradients", memory.backward, 0);
  shared("scratch", 0, memory.scratch);
  rows.push_back({"total", "", "", "", std::to_string(plan.layout.parameter_count()),
                  format_count(flops_of(plan)), cell(memory.weights), cell(memory.gradients),
                  cell(memory.optimizer), cell(memory.activations() - memory.workspace),
                  cell(memory.workspace)});
  return table(rows);
}

// "a parameter takes 12 bytes: float32, 4 of weight, 4 of gradient, 4 of momentum".
std::string parameter_text(const training::TrainingMemory& memory, const std::string& precision) {
  const training::ParameterBytes& it = memory.parameter;
  const char* state = it.optimizer > it.weight ? "AdamW's two moments" : "momentum";
  const std::size_t workers = memory.workers;
  return fmt::format(
      "a parameter takes {} bytes of float32: {} of weight{}, {} of gradient, {} of {}{}\n",
      it.weight + workers * (it.gradient + it.optimizer), it.weight,
      workers > 1 ? fmt::format(", and for each of {} workers", workers) : "", it.gradient, it.optimizer,
      state, precision == "bf16" ? "; copies in bfloat16 are made in the workspace, a layer at a time" : "");
}

std::string peer_text(const training::PeerMemory& peer, const std::string& data) {
  std::string text =
      fmt::format("a peer: about {}{}, of which training {}, exchanges {}", bytes_text(peer.peak()),
                  data.empty() ? " and its data set (--data NAME)" : "", bytes_text(peer.training),
                  bytes_text(peer.exchange));
  if (!data.empty()) text += fmt::format(", {} {}", data, bytes_text(peer.data));
  text += fmt::format(", the process itself {}\n", bytes_text(peer.process));
  if (peer.evaluation > peer.training) {
    text += fmt::format("it takes the most at its end: evaluation {} instead of training\n",
                        bytes_text(peer.evaluation));
  }
  return text;
}

std::string model_text(const models::Plan& plan, const training::TrainingMemory& memory,
                       const training::PeerMemory& peer, const std::string& precision,
                       const std::string& data) {
  std::string text = layers_table(plan, memory);
  auto out = std::back_inserter(text);
  fmt::format_to(out, "\n{} for inputs of {}, {} classes: {} parameters, {:.0f} flops a sample forward\n",
                 plan.spec.name, shape_text(plan.spec.input), plan.classes, plan.layout.parameter_count(),
                 flops_of(plan));
  text += parameter_text(memory, precision);
  if (std::any_of(memory.layers.begin(), memory.layers.end(),
                  [&](const auto& layer) { return layer.counted_at != &layer - memory.layers.data(); })) {
    text += "in LAYER: where that layer's activations lie; one operation yields both, or they take turns\n";
  }
  fmt::format_to(
      out, "memory at batch size {}{}: weights {}, gradients {}, optimizer state {}, activations {}: {}\n",
      memory.batch_size, memory.workers > 1 ? fmt::format(", {} workers", memory.workers) : "",
      bytes_text(memory.weights), bytes_text(memory.gradients), bytes_text(memory.optimizer),
      bytes_text(memory.activations()), bytes_text(memory.total()));
  if (memory.kept < memory.kept_of_all) {
    const auto kept = static_cast<double>(memory.kept), all = static_cast<double>(memory.kept_of_all);
    fmt::format_to(out, "computed again, {} of activations are kept instead of {}: {:.0f} % less\n",
                   format_bytes(kept), format_bytes(all), 100 * (1 - kept / all));
  }
  return text + peer_text(peer, data);
}

// The network's shape: --input and --classes, or those of --data, which is then loaded.
struct Subject {
  models::Shape input;
  int classes = 0;
  std::optional<datasets::DataPair> data;
};
Result<Subject> read_subject(const Arguments& arguments) {
  Subject subject;
  if (const auto name = arguments.get("--data")) {
    for (const char* flag : {"--input", "--classes"}) {
      if (arguments.has(flag)) return Error{std::string(flag) + " does not go with --data, which says it"};
    }
    auto data = datasets::load(*name, data_root());
    if (!data) return data.error();
    const datasets::ImageShape& shape = data->train.shape;
    subject = {{shape.channels, shape.height, shape.width}, data->train.classes, std::move(*data)};
    return subject;
  }
  const auto classes = read_count(arguments, "--classes", 10, 1'000'000);
  if (!classes) return classes.error();
  const auto shape = read_shape(arguments.get("--input").value_or("1x28x28"));
  if (!shape) return shape.error();
  return Subject{*shape, *classes, std::nullopt};
}

Result<training::Experiment> read_training(const Arguments& arguments) {
  training::Experiment experiment;
  const auto batch = read_count(arguments, "--batch-size", 64, kLargestBatch);
  if (!batch) return batch.error();
  experiment.batch_size = static_cast<std::uint32_t>(*batch);
  for (const auto& [flag, key] : {std::pair("--optimizer", "training.optimizer"),
                                  {"--workers", "training.workers"},
                                  {"--precision", "training.precision"}}) {
    const auto value = arguments.get(flag);
    if (!value) continue;
    if (const Status set = training::set_value(experiment, key, *value, flag); !set) return set.error();
  }
  experiment.recompute = arguments.has("--recompute");
  return experiment;
}

int show(const Arguments& arguments) {
  const Result<training::Experiment> experiment = read_training(arguments);
  if (!experiment) return refuse(arguments, experiment.error().message);
  const Result<models::ModelText> model = resolve_model(*arguments.get("NAME"));
  if (!model) return refuse(arguments, model.error().message);
  const Result<Subject> subject = read_subject(arguments);
  if (!subject) return refuse(arguments, subject.error().message);
  const Result<models::Plan> plan = models::make_model(*model, subject->input, subject->classes);
  if (!plan) return refuse(arguments, plan.error().message);

  const auto backend = training::make_host_backend(*experiment);
  if (!backend) return fail(arguments, backend.error().message);
  const training::TrainingMemory memory = training::training_memory(*experiment, *plan, **backend);
  const training::PeerMemory peer =
      training::peer_memory(memory, *plan, **backend, subject->data ? &*subject->data : nullptr);
  const std::string text = arguments.has("--json") ? model_json(*plan, memory, peer)
                                                   : model_text(*plan, memory, peer, experiment->precision,
                                                                subject->data ? subject->data->name : "");
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command model_list_command() {
  return {"model list", "the networks with a name", {}, {{"--json", "", "print one JSON object"}}, list,
          "starling model list"};
}

Command model_show_command() {
  return {"model show",
          "layers, parameters, flops, memory",
          {{"NAME", "a name of `model list`, or a .toml file with layers"}},
          {{"--batch-size", "N", "samples in a step (default 64)"},
           {"--input", "CxHxW", "shape of an input (default 1x28x28)"},
           {"--classes", "N", "how many classes (default 10)"},
           {"--data", "NAME-OR-PATH", "a data set instead: its shape, its classes, and its memory"},
           {"--optimizer", "NAME", "sgd (default) or adamw"},
           {"--workers", "N", "Hogwild workers of a peer (default 1)"},
           {"--precision", "NAME", "f32 (default) or bf16"},
           {"--recompute", "", "with activations that are computed again instead of kept"},
           {"--json", "", "print one JSON object"}},
          show,
          "starling model show lenet --data mnist"};
}

}  // namespace starling::cli
