// starling evaluate: accuracy and loss of a saved model.
#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/experiment_flags.h"
#include "cli/json.h"
#include "cli/model_name.h"
#include "kernels/backend.h"
#include "training/checkpoint.h"

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

int run(const Arguments& arguments) {
  for (const char* flag : {"--checkpoint", "--data"}) {
    if (!arguments.has(flag))
      return refuse(arguments, std::string(flag) + " is missing; see `starling evaluate --help`");
  }
  const std::string checkpoint = *arguments.get("--checkpoint");
  const Result<models::ModelText> model = find_model(arguments, checkpoint);
  if (!model) return refuse(arguments, model.error().message);
  const Result<datasets::DataPair> data = datasets::load(*arguments.get("--data"), data_root());
  if (!data) return refuse(arguments, data.error().message);
  const datasets::ImageShape shape = data->test.shape;
  const Result<models::Plan> plan =
      models::make_model(*model, {shape.channels, shape.height, shape.width}, data->train.classes);
  if (!plan) return refuse(arguments, plan.error().message);
  const Result<training::Checkpoint> replica = training::read_safetensors(checkpoint, plan->layout);
  if (!replica) return refuse(arguments, replica.error().message);

  const auto backend = kernels::make_backend("cpu");
  if (!backend) return fail(arguments, backend.error().message);
  Evaluated evaluated;
  evaluated.checkpoint = checkpoint;
  evaluated.model = model->name;
  evaluated.data = data->name;
  evaluated.parameters = plan->layout.parameter_count();
  evaluated.samples = data->test.size();
  evaluated.score = training::Evaluator(*plan, **backend, data->test).evaluate(replica->arena.data());
  const std::string text =
      arguments.has("--json") ? evaluation_json(evaluated)
                              : fmt::format("{} on {}: accuracy {:.2f} %, loss {:.4f} over {} test samples\n",
                                            evaluated.model, evaluated.data, evaluated.score.accuracy * 100,
                                            evaluated.score.loss, evaluated.samples);
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

}  // namespace

Command evaluate_command() {
  return {"evaluate",
          "accuracy and loss of a saved model",
          {},
          {{"--checkpoint", "FILE", "a safetensors file"},
           {"--data", "NAME-OR-PATH", "its test set is used"},
           {"--model", "NAME-OR-FILE", "the network, where the file does not say it"},
           {"--json", "", "print one JSON object"}},
          run,
          "starling evaluate --checkpoint runs/run-1/model.safetensors --data mnist"};
}

}  // namespace starling::cli
