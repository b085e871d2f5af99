// starling model list, show: the networks and their cost.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <optional>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/json.h"
#include "cli/commands/model/description_text.h"
#include "cli/commands/model/subject.h"
#include "cli/commands/named_files.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/shell/output.h"
#include "kernels/backend.h"
#include "models/spec.h"
#include "training/learning/data_facts.h"
#include "training/learning/memory.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/settings/setting_kinds.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/json.h"

namespace starling::cli {
namespace {

constexpr std::uint32_t kBatchSizeMax = 65'536;

int list_models(const Arguments& arguments) {
  std::vector<Described> entries;
  for (const std::string& name : models::model_names())
    entries.push_back({name, models::describe_model(name)});
  return print_list(arguments, "models", entries);
}

std::string shape_text(const models::Shape& shape) {
  if (shape.tokens > 0) return fmt::format("{}x{}", shape.tokens, shape.features());
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

// For a table, where most cells would be "0 B".
std::string cell(std::size_t bytes) { return bytes == 0 ? "-" : format_bytes(bytes); }

std::string layers_table(const models::Plan& plan, const training::TrainingMemory& memory) {
  std::vector<std::vector<std::string>> rows = {{"layer", "kind", "reads", "output", "params", "flops",
                                                 "weights", "gradients", "optimizer", "activations",
                                                 "workspace"}};
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
  return aligned(rows, 4);
}

// "a parameter takes 12 bytes of float32: 4 of weight, 4 of gradient, 4 of momentum".
std::string parameter_text(const training::TrainingMemory& memory, const std::string& precision) {
  const training::ParameterBytes& it = memory.parameter;
  const char* state = it.optimizer > it.weight ? "AdamW's two moments" : "momentum";
  const std::size_t workers = memory.workers;
  return fmt::format(
      "a parameter takes {} bytes of float32: {} of weight{}, {} of gradient, {} of {}{}\n",
      it.weight + workers * (it.gradient + it.optimizer), it.weight,
      workers > 1 ? fmt::format(", and for each of {} workers", workers) : "", it.gradient, it.optimizer,
      state, precision == "bf16" ? "; the workspace holds copies in bfloat16, one layer at a time" : "");
}

std::string peer_text(const training::PeerMemory& peer, const std::string& data) {
  std::string text = fmt::format("a peer: about {}{}: training {}, exchanges {}", format_bytes(peer.peak()),
                                 data.empty() ? " and its data set (--data NAME)" : "",
                                 format_bytes(peer.training), format_bytes(peer.exchange));
  if (!data.empty()) text += fmt::format(", {} {}", data, format_bytes(peer.data));
  text += fmt::format(", the process {}\n", format_bytes(peer.process));
  if (peer.evaluation > peer.training) {
    text += fmt::format("the peak is at the end of the run: evaluation {} instead of training\n",
                        format_bytes(peer.evaluation));
  }
  return text;
}

std::string model_text(const models::Plan& plan, const training::TrainingMemory& memory,
                       const training::PeerMemory& peer, const std::string& precision,
                       const std::string& data) {
  std::string text = layers_table(plan, memory);
  auto out = std::back_inserter(text);
  fmt::format_to(out, "\n{} for inputs of {}, {} classes: {} parameters, {:.0f} flops per sample forward\n",
                 plan.spec.name, shape_text(plan.spec.input), plan.classes, plan.layout.parameter_count(),
                 flops_of(plan));
  if (const auto flops = flops_per_token(plan))
    fmt::format_to(out, "{} flops per token in training, forward and backward\n", format_count(*flops));
  text += parameter_text(memory, precision);
  if (std::any_of(memory.layers.begin(), memory.layers.end(),
                  [&](const auto& layer) { return layer.counted_at != &layer - memory.layers.data(); })) {
    text += "in LAYER: the activations share memory with that layer's\n";
  }
  fmt::format_to(
      out, "memory at batch size {}{}: weights {}, gradients {}, optimizer state {}, activations {}: {}\n",
      memory.batch_size, memory.workers > 1 ? fmt::format(", {} workers", memory.workers) : "",
      format_bytes(memory.weights), format_bytes(memory.gradients), format_bytes(memory.optimizer),
      format_bytes(memory.activations()), format_bytes(memory.total()));
  if (memory.kept < memory.kept_of_all) {
    const auto kept = static_cast<double>(memory.kept), all = static_cast<double>(memory.kept_of_all);
    fmt::format_to(out, "with --recompute {} of activations are kept instead of {}: {:.0f} % less\n",
                   format_bytes(kept), format_bytes(all), 100 * (1 - kept / all));
  }
  return text + peer_text(peer, data);
}

const std::vector<std::string> kRecompute = {"never", "always"};  // except-last needs stages

Result<training::Experiment> read_training(const Arguments& arguments) {
  training::Experiment experiment;
  if (Status read = read_number(arguments, "--batch-size", 1U, kBatchSizeMax, experiment.training.batch_size);
      !read)
    return read.error();
  for (const auto& [flag, key] : {std::pair("--optimizer", "training.optimizer"),
                                  {"--workers", "training.workers"},
                                  {"--precision", "training.precision"}}) {
    const auto value = arguments.get(flag);
    if (!value) continue;
    if (const Status set = training::set_value(experiment, key, *value, flag); !set) return set.error();
  }
  if (const auto when = arguments.get("--recompute")) {
    if (const auto known = training::parse_choice(*when, kRecompute); !known)
      return Error{"--recompute: " + known.error().message};
    if (*when == "always") experiment.training.recompute = training::Recomputation::always;
  }
  return experiment;
}

// What a model's file says about itself and about the data on which it was trained.
int show_file(const Arguments& arguments, const std::string& path) {
  for (const char* flag : {"--batch-size", "--input", "--classes", "--data", "--optimizer", "--workers",
                           "--precision", "--recompute"}) {
    if (arguments.has(flag))
      return refuse(arguments, std::string(flag) + " has no effect, because " + path +
                                   " is a saved model; name a network of `model list` or a .toml file");
  }
  const auto file = training::SafetensorsFile::open(path);
  if (!file) return refuse(arguments, file.error());
  if (Status model = training::check_is_model(*file); !model) return refuse(arguments, model.error());
  const auto given = training::given_by(path, file->metadata());
  if (!given) return refuse(arguments, given.error());
  const auto network = training::model_of(file->metadata());
  const auto* data = given->of_model.get();
  const std::size_t tensors =
      static_cast<std::size_t>(std::ranges::count_if(file->entries(), [&](const auto& entry) {
        return training::is_parameter(file->metadata(), entry.name);
      }));
  if (arguments.has("--json")) {
    const auto& facts = file->metadata();
    const auto described = facts.find(training::kDescriptionFact);
    return print_out(training::to_line(
        {{"file", path},
         {"model", network ? training::Json(network->name) : training::Json()},
         {"tensors", tensors},
         {"data", data != nullptr ? training::Json(data->name) : training::Json()},
         {"description", data != nullptr ? training::parse_json(described->second) : training::Json()}}));
  }
  std::string text = fmt::format("{}: {}, {} tensors\n", path,
                                 network ? network->name : "a network without a name", tensors);
  if (data == nullptr) return print_out(text + "it does not describe the data on which it was trained\n");
  text += fmt::format("trained on {}: {}\n{}", data->name, datasets::sample_kind(*data), origin_text(*data));
  text += fmt::format("{:<12}{}, for testing {}\n", data->is_text ? "tokens" : "samples", data->train_samples,
                      data->test_samples);
  if (!data->normalization.empty()) text += fmt::format("{:<12}{}\n", "values", normalization_text(*data));
  if (!data->tokenizer.empty()) text += fmt::format("{:<12}{}\n", "tokenizer", data->tokenizer);
  return print_out(text);
}

bool is_file(const std::string& name) {
  std::error_code none;
  return name.ends_with(".safetensors") || std::filesystem::is_regular_file(name, none);
}

int show_model(const Arguments& arguments) {
  const std::string name = *arguments.get("NAME");
  if (!models::is_model_file(name) && is_file(name)) return show_file(arguments, name);
  Result<training::Experiment> experiment = read_training(arguments);
  if (!experiment) return refuse(arguments, experiment.error());
  const Result<models::ModelText> model = resolve_model(name);
  if (!model) return refuse(arguments, model.error());
  experiment->model.name = model->name;
  experiment->model.layers = model->layers;
  const Result<Subject> subject = read_subject(arguments, *model);
  if (!subject) return refuse(arguments, subject.error());
  const Result<models::Plan> plan = models::make_model(*model, subject->input, subject->classes);
  if (!plan) return refuse(arguments, plan.error());

  const auto backend = training::make_host_backend(*experiment);
  if (!backend) return fail(arguments, backend.error());
  warn(training::warning_of_precision(*experiment, true));
  const training::TrainingMemory memory = training::training_memory(*experiment, *plan, **backend);
  const training::PeerMemory peer =
      training::peer_memory(memory, *plan, **backend, subject->data ? &*subject->data : nullptr);
  return print_out(arguments.has("--json")
                       ? model_json(*plan, memory, peer)
                       : model_text(*plan, memory, peer, training::precision_on(*experiment, "cpu"),
                                    subject->data ? subject->data->name : ""));
}

}  // namespace

std::vector<Command> model_commands() {
  return {list_command("model", "list the networks with a name", list_models),
          {"model show",
           "print a network's layers and cost, or a saved model's data",
           {{"NAME", "a name of `model list`, a .toml file with layers, or a safetensors file"}},
           {{"--batch-size", "N", "samples in a step (default 64)"},
            {"--input", "CxHxW", "shape of an input (default 1x28x28)"},
            {"--classes", "N", "number of classes (default 10)"},
            {"--data", "NAME-OR-PATH", "a data set: its shape, its classes, and its memory"},
            {"--optimizer", "NAME", "sgd (default) or adamw"},
            {"--workers", "N", "Hogwild workers of a peer (default 1)"},
            {"--precision", "NAME", "f32 (default) or bf16"},
            {.name = "--recompute",
             .placeholder = "WHEN",
             .help = "recompute activations instead of keeping them: never (default) or always; alone it "
                     "means always",
             .alone = "always",
             .values = kRecompute},
            kJsonFlag},
           show_model,
           "starling model show lenet --data mnist"}};
}

}  // namespace starling::cli
