// starling model list, starling model show: the networks, and what they cost.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/model_name.h"
#include "cli/output.h"
#include "kernels/backend.h"
#include "models/network.h"
#include "models/spec.h"
#include "training/experiment.h"
#include "training/recipe.h"

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

constexpr std::size_t kColumns = 6, kWords = 3;  // of which the first are words, set to the left

// Each column as wide as what stands in it.
std::string table(const std::vector<std::array<std::string, kColumns>>& rows) {
  std::array<std::size_t, kColumns> widths{};
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < kColumns; ++c) {
      text += c == 0 ? "" : "  ";
      text +=
          c < kWords ? fmt::format("{:<{}}", row[c], widths[c]) : fmt::format("{:>{}}", row[c], widths[c]);
    }
    text += "\n";
  }
  return text;
}

std::string model_text(const models::Plan& plan, const ModelMemory& memory) {
  double flops = 0;
  std::vector<std::array<std::string, kColumns>> rows = {
      {"layer", "kind", "reads", "output", "parameters", "flops/sample"}};
  for (const models::LayerInfo& layer : plan.layers) {
    flops += layer.flops_forward;
    std::string reads = layer_name(plan, layer.from);
    if (layer.other != models::LayerInfo::kNone) reads += " + " + layer_name(plan, layer.other);
    rows.push_back({layer.name, layer.kind, std::move(reads), shape_text(layer.output),
                    std::to_string(layer.parameters), fmt::format("{:.0f}", layer.flops_forward)});
  }
  std::string text = table(rows);
  auto out = std::back_inserter(text);
  fmt::format_to(out, "\n{} for inputs of {}, {} classes: {} parameters, {:.0f} flops a sample forward\n",
                 plan.spec.name, shape_text(plan.spec.input), plan.classes, plan.layout.parameter_count(),
                 flops);
  fmt::format_to(
      out, "memory at batch size {}: weights {}, gradients {}, optimizer state {}, activations {}: {}\n",
      memory.batch_size, format_bytes(static_cast<double>(memory.weights_bytes)),
      format_bytes(static_cast<double>(memory.gradients_bytes)),
      format_bytes(static_cast<double>(memory.optimizer_bytes)),
      format_bytes(static_cast<double>(memory.activations_bytes)),
      format_bytes(static_cast<double>(memory.total())));
  if (memory.kept_bytes < memory.kept_without_recompute_bytes) {
    const auto kept = static_cast<double>(memory.kept_bytes),
               all = static_cast<double>(memory.kept_without_recompute_bytes);
    fmt::format_to(out, "computed again, {} of activations are kept instead of {}: {:.0f} % less\n",
                   format_bytes(kept), format_bytes(all), 100 * (1 - kept / all));
  }
  return text;
}

int show(const Arguments& arguments) {
  const auto batch = read_count(arguments, "--batch-size", 64, kLargestBatch);
  if (!batch) return refuse(arguments, batch.error().message);
  const auto classes = read_count(arguments, "--classes", 10, 1'000'000);
  if (!classes) return refuse(arguments, classes.error().message);
  const auto shape = read_shape(arguments.get("--input").value_or("1x28x28"));
  if (!shape) return refuse(arguments, shape.error().message);
  const Result<models::ModelText> model = resolve_model(*arguments.get("NAME"));
  if (!model) return refuse(arguments, model.error().message);
  const Result<models::Plan> plan = models::make_model(*model, *shape, *classes);
  if (!plan) return refuse(arguments, plan.error().message);

  const auto backend = kernels::make_backend("cpu");
  if (!backend) return fail(arguments, backend.error().message);
  ModelMemory memory;
  memory.batch_size = *batch;
  training::Experiment experiment;
  if (const auto optimizer = arguments.get("--optimizer")) {
    const Status set = training::set_value(experiment, "training.optimizer", *optimizer, "--optimizer");
    if (!set) return refuse(arguments, set.error().message);
  }
  memory.weights_bytes = memory.gradients_bytes = plan->layout.arena_size() * sizeof(float);
  memory.optimizer_bytes = training::state_vectors(training::make_optimizer(experiment)) *
                           plan->layout.trained_size() * sizeof(float);
  // Built for this very batch, so that it is what a worker holds and no estimate.
  const auto measure = [&](bool recompute) {
    return models::Network(*plan, **backend, *batch, models::Purpose::train, {.recompute = recompute})
        .memory();
  };
  models::NetworkMemory network = measure(false);
  memory.kept_without_recompute_bytes = network.activations_bytes;
  if (arguments.has("--recompute")) network = measure(true);
  memory.activations_bytes = network.total();
  memory.kept_bytes = network.activations_bytes;
  const std::string text = arguments.has("--json") ? model_json(*plan, memory) : model_text(*plan, memory);
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command model_list_command() {
  return {"model list", "the networks with a name", {}, {{"--json", "", "print one JSON object"}}, list};
}

Command model_show_command() {
  return {"model show",
          "layers, parameters, flops, memory",
          {{"NAME", "a name of `model list`, or a .toml file with layers"}},
          {{"--batch-size", "N", "samples in a step (default 64)"},
           {"--input", "CxHxW", "shape of an input (default 1x28x28)"},
           {"--classes", "N", "how many classes (default 10)"},
           {"--optimizer", "NAME", "sgd (default) or adamw"},
           {"--recompute", "", "with activations that are computed again instead of kept"},
           {"--json", "", "print one JSON object"}},
          show};
}

}  // namespace starling::cli
