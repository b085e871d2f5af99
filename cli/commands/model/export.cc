// starling export: a saved model in a file for other programs.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/model/model_file.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/shell/log.h"
#include "training/learning/data_facts.h"
#include "training/learning/export/onnx.h"
#include "training/learning/export/transformers.h"
#include "training/runs/records/checkpoint.h"

namespace starling::cli {
namespace {

// In the order of training::TensorNames.
constexpr std::array<const char*, 3> kNameForms = {"starling", "nanogpt", "gpt2"};

// --names, the first by default.
Result<training::TensorNames> names_of(const Arguments& arguments) {
  const std::string wanted = arguments.get("--names").value_or(kNameForms.front());
  const auto form = std::ranges::find(kNameForms, wanted);
  if (form == kNameForms.end())
    return Error{"--names: '" + wanted.substr(0, 80) + "' is unknown; expected " + one_of(kNameForms)};
  return static_cast<training::TensorNames>(form - kNameForms.begin());
}

// If programs that read these names assume another GELU than the network has.
std::string warning_of_gelu(const std::string& path, const Result<models::ModelText>& model,
                            training::TensorNames names) {
  using training::TensorNames;
  if (!model || names == TensorNames::starling) return "";
  const auto plan = models::make_model(*model, {1, 1, 1, models::context_of(*model)}, 2);
  if (!plan) return "";
  const bool tanh = names == TensorNames::gpt2;  // what they assume
  const bool other = std::ranges::any_of(plan->spec.layers, [tanh](const models::Layer& layer) {
    const auto* block = std::get_if<models::TransformerBlock>(&layer.kind);
    return block != nullptr && !block->swiglu && block->tanh != tanh;
  });
  if (!other) return "";
  return tanh ? path +
                    " computes the exact GELU: give transformers activation_function=\"gelu\", whose default "
                    "is the approximation by tanh"
              : path +
                    " computes GELU by tanh, and nanoGPT computes the exact one: use "
                    "GELU(approximate=\"tanh\")";
}

Status write_parameters(const Arguments& arguments, const std::string& from, const std::string& to) {
  const auto names = names_of(arguments);
  if (!names) return names.error();
  const auto flag = arguments.get("--model");
  if (*names == training::TensorNames::starling && flag)
    return Error{"--model has no effect without --names nanogpt or gpt2; omit it"};
  const auto model = flag ? find_model(arguments, from) : Result<models::ModelText>(models::ModelText{});
  if (!model) return model.error();
  const Status written =
      training::export_parameters(from, to, *names, flag ? std::optional(*model) : std::nullopt);
  if (written) warn(warning_of_gelu(from, flag ? model : find_model(arguments, from), *names));
  return written;
}

// What the file says about its data, or else --data.
Result<datasets::Description> describe_data(const Arguments& arguments, const std::string& path,
                                            const datasets::Given& given) {
  const bool whole =
      given.of_model != nullptr && (given.of_model->is_text || !given.of_model->normalization.empty());
  const auto name = arguments.get("--data");
  if (whole && name) return Error{"--data has no effect, because " + path + " describes its data; omit it"};
  if (whole) return *given.of_model;
  if (!name)
    return Error{path +
                 " does not contain the shape and the normalization of its data; name them with --data"};
  const auto data = datasets::load(*name, data_root(), given);
  if (!data) return data.error();
  warn(training::warning_of_description(path, given, *data));
  return datasets::description_of(*data);
}

// The metadata of the file that the graph contains, too.
training::Facts facts_of_graph(const training::Facts& metadata) {
  training::Facts facts;
  for (const char* key : {"model", "data", training::kTokenizerFact}) {
    if (const auto found = metadata.find(key); found != metadata.end()) facts.insert(*found);
  }
  return facts;
}

// A model that is read whole.
struct WholeModel {
  training::Facts metadata;
  datasets::Given given;
  datasets::Description data;
  models::Plan plan;
  std::vector<float> parameters;  // in the order of plan.layout
};

Result<WholeModel> read_whole(const Arguments& arguments, const std::string& path) {
  auto metadata = training::read_metadata(path);
  if (!metadata) return metadata.error();
  const auto model = find_model(arguments, path);
  if (!model) return model.error();
  auto given = training::given_by(path, *metadata);
  if (!given) return given.error();
  auto data = describe_data(arguments, path, *given);
  if (!data) return data.error();
  const models::Shape shape{data->shape.channels, data->shape.height, data->shape.width};
  auto plan = models::make_model(
      *model, data->is_text ? models::Shape{1, 1, 1, models::context_of(*model)} : shape, data->classes);
  if (!plan) return plan.error();
  auto parameters = read_parameters(path, plan->layout);
  if (!parameters) return parameters.error();
  return WholeModel{std::move(*metadata), std::move(*given), std::move(*data), std::move(*plan),
                    std::move(*parameters)};
}

Status write_onnx(const Arguments& arguments, const std::string& from, const std::string& to) {
  const auto model = read_whole(arguments, from);
  if (!model) return model.error();
  const auto file =
      training::to_onnx(model->plan, model->parameters, model->data, facts_of_graph(model->metadata));
  if (!file) return Error{from + ": " + file.error().message};
  return training::write_text(to, *file);
}

Status write_folder(const Arguments& arguments, const std::string& from, const std::string& to) {
  const auto model = read_whole(arguments, from);
  if (!model) return model.error();
  const Status written = training::write_transformers(to, model->plan, model->parameters,
                                                      model->given.tokenizer, arguments.has("--force"));
  if (!written) return Error{from + ": " + written.error().message};
  if (model->given.tokenizer == nullptr) warn(from + " has no tokenizer, so " + to + " has none");
  return written;
}

struct Format {
  const char* name;
  std::vector<std::string> flags;  // that have an effect with it and not with each
  Status (*write)(const Arguments& arguments, const std::string& from, const std::string& to);
};
const std::array kFormats = {Format{"safetensors", {"--names", "--model"}, write_parameters},
                             Format{"onnx", {"--data", "--model"}, write_onnx},
                             Format{"transformers", {"--data", "--model", "--force"}, write_folder}};

int export_model(const Arguments& arguments) {
  const auto file = model_file(arguments);
  if (!file) return refuse(arguments, file.error());
  const std::string wanted = arguments.get("--format").value_or(kFormats.front().name);
  const auto format = std::ranges::find_if(kFormats, [&](const Format& each) { return each.name == wanted; });
  if (format == kFormats.end()) {
    std::vector<std::string> names;
    for (const Format& each : kFormats) names.emplace_back(each.name);
    return refuse(arguments,
                  Error{"--format: '" + wanted.substr(0, 80) + "' is unknown; expected " + one_of(names)});
  }
  for (const char* flag : {"--names", "--data", "--model", "--force"}) {
    if (arguments.has(flag) && std::ranges::count(format->flags, flag) == 0)
      return refuse(arguments,
                    std::string(flag) + " has no effect with --format " + format->name + "; omit it");
  }
  const Status written = format->write(arguments, *file, *arguments.get("--out"));
  return written ? kExitDone : refuse(arguments, written.error());
}

}  // namespace

Command export_command() {
  return {"export",
          "write a saved model for other programs",
          {kModelFile},
          {kCheckpointFlag,
           {.name = "--out",
            .placeholder = "FILE",
            .help = "the file (with transformers: the folder) to write",
            .required = true},
           {"--format", "FORMAT",
            "safetensors (default): only the parameters; onnx: a graph with normalization; transformers: a "
            "folder for from_pretrained()"},
           {"--names", "NAMES", "names of the tensors of a GPT: starling (default), nanogpt or gpt2"},
           {"--data", "NAME-OR-PATH",
            "with onnx and transformers: the data set, if the file does not describe it"},
           {"--model", "NAME-OR-FILE",
            "with another format or --names: the network, if the file does not name it"},
           {"--force", "", "with transformers: replace the files of another model in the folder"}},
          export_model,
          "starling export ckpt/p0.1200.safetensors --out model.safetensors\n"
          "starling export runs/run-1/model.safetensors --format onnx --out model.onnx"};
}

}  // namespace starling::cli
