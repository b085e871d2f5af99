// starling evaluate: accuracy and loss of a saved model.
#include <fmt/format.h>

#include <cstdio>

#include "cli/commands/commands.h"
#include "cli/commands/json.h"
#include "cli/commands/saved_model.h"
#include "kernels/backends.h"

namespace starling::cli {
namespace {

int run(const Arguments& arguments) {
  const Result<SavedModel> loaded = load_saved_model(arguments);
  if (!loaded) return refuse(arguments, loaded.error().message);
  const SavedModel& saved = *loaded;
  const auto backend = kernels::make_backend("cpu");
  if (!backend) return fail(arguments, backend.error().message);
  Evaluated evaluated;
  evaluated.checkpoint = saved.path;
  evaluated.model = saved.model.name;
  evaluated.data = saved.data.name;
  evaluated.parameters = saved.plan.layout.parameter_count();
  evaluated.samples = saved.data.test.size();
  evaluated.score = training::Evaluator(saved.plan, **backend, saved.data.test).evaluate(saved.parameters.data());
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
          saved_model_flags({{"--json", "", "print one JSON object"}}),
          run,
          "starling evaluate --checkpoint runs/run-1/model.safetensors --data mnist"};
}

}  // namespace starling::cli
