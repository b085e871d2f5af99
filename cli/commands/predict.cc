// starling predict: what a saved model says of each sample.
#include "kernels/backends.h"
#include "training/replica/predictor.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/json.h"
#include "cli/commands/saved_model.h"

namespace starling::cli {
namespace {

int run(const Arguments& arguments) {
  std::size_t limit = SIZE_MAX;
  if (const auto text = arguments.get("--limit")) {
    const auto number = parse_number<std::size_t>(*text);
    if (!number || *number == 0)
      return refuse(arguments, "--limit: '" + text->substr(0, 80) + "' is not a number of samples");
    limit = *number;
  }
  const Result<SavedModel> loaded = load_saved_model(arguments);
  if (!loaded) return refuse(arguments, loaded.error().message);
  const SavedModel& saved = *loaded;
  const auto backend = kernels::make_backend("cpu");
  if (!backend) return fail(arguments, backend.error().message);
  const bool json = arguments.has("--json");
  bool first = true;
  std::fputs(json ? prediction_json_head(saved.path, saved.model.name, saved.data.name).c_str()
                  : "sample,class,probability,label\n",
             stdout);
  training::predict(saved.plan, **backend, saved.data.test, saved.parameters.data(), limit,
                    [&](const training::Prediction& it) {
                      const std::string line = json ? (first ? "\n" : ",\n") + prediction_json(it)
                                                    : fmt::format("{},{},{},{}\n", it.sample, it.guess,
                                                                  format_number(it.probability), it.label);
                      first = false;
                      std::fputs(line.c_str(), stdout);
                    });
  if (json) std::fputs("\n]}\n", stdout);
  return kExitDone;
}

}  // namespace

Command predict_command() {
  return {"predict",
          "class and probability of each test sample, by a saved model",
          {},
          saved_model_flags({{"--limit", "N", "the first N samples alone"},
                             {"--json", "", "print one JSON object, a sample a line, in place of CSV"}}),
          run,
          "starling predict --checkpoint runs/run-1/model.safetensors --data mnist --limit 5"};
}

}  // namespace starling::cli
