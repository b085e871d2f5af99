#include "cli/commands/saved_model.h"

#include <utility>

#include "cli/commands/experiment_flags.h"
#include "cli/commands/model_name.h"
#include "training/records/checkpoint.h"

namespace starling::cli {
namespace {

// Which network the file holds: --model, or what the file's own metadata says.
Result<models::ModelText> find_model(const Arguments& arguments, const std::string& checkpoint) {
  if (const auto model = arguments.get("--model")) return resolve_model(*model);
  const auto metadata = training::read_metadata(checkpoint);
  if (!metadata) return metadata.error();
  auto model = training::model_of(*metadata);
  if (!model) return Error{checkpoint + " does not say which model it holds; name it with --model NAME"};
  return std::move(*model);
}

}  // namespace

std::vector<Flag> saved_model_flags(std::vector<Flag> more) {
  std::vector<Flag> flags = {{"--checkpoint", "FILE", "a safetensors file"},
                             {"--data", "NAME-OR-PATH", "its test set is used"},
                             {"--model", "NAME-OR-FILE", "the network, where the file does not say it"}};
  for (Flag& flag : more) flags.push_back(std::move(flag));
  return flags;
}

Result<SavedModel> load_saved_model(const Arguments& arguments) {
  for (const char* flag : {"--checkpoint", "--data"}) {
    if (!arguments.has(flag))
      return Error{std::string(flag) + " is missing; see `starling " + arguments.command() + " --help`"};
  }
  const std::string path = *arguments.get("--checkpoint");
  auto model = find_model(arguments, path);
  if (!model) return model.error();
  auto data = datasets::load(*arguments.get("--data"), data_root());
  if (!data) return data.error();
  const datasets::ImageShape shape = data->test.shape;
  auto plan = models::make_model(*model, {shape.channels, shape.height, shape.width}, data->train.classes);
  if (!plan) return plan.error();
  auto replica = training::read_safetensors(path, plan->layout);
  if (!replica) return replica.error();
  return SavedModel{path, std::move(*model), std::move(*data), std::move(*plan), std::move(replica->arena)};
}

}  // namespace starling::cli
