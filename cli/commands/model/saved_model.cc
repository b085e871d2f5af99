// starling evaluate, predict: how good a saved model is, and what it says of each sample.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/model/model_file.h"
#include "cli/commands/named_files.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/shell/log.h"
#include "kernels/by_name/backends.h"
#include "node/keep/checkpointer.h"
#include "training/learning/data_facts.h"
#include "training/learning/evaluator.h"
#include "training/learning/recipe.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/json.h"
#include "training/runs/records/record.h"

namespace starling::cli {
namespace {

using training::Json;

struct SavedModel {
  std::string path;
  models::ModelText model;
  datasets::DataPair data;
  models::Plan plan;
  std::vector<float> parameters;  // in the order of plan.layout
};

// The model of a run's folder, or the newest complete checkpoint in a peer's.
Result<std::string> model_in(const std::string& folder) {
  std::error_code none;
  if (const std::string model = folder + "/model.safetensors"; std::filesystem::exists(model, none))
    return model;
  const auto newest = node::find_resumption(folder, "");
  if (!newest) {
    const std::string why = newest.error().message;
    return Error{why.substr(0, why.find("; select one with --name")) + "; name the file of one"};
  }
  if (*newest) return (*newest)->path;
  return Error{"the folder " + folder +
               " has neither model.safetensors nor a checkpoint; name a safetensors file"};
}

}  // namespace

Result<models::ModelText> find_model(const Arguments& arguments, const std::string& checkpoint) {
  const auto flag = arguments.get("--model");
  auto model = flag ? resolve_model(*flag) : Result<models::ModelText>(models::ModelText{});
  if (!model) return model.error();
  const auto metadata = training::read_metadata(checkpoint);
  if (!metadata) return metadata.error();
  auto own = training::model_of(*metadata);
  if (!flag && !own) return Error{checkpoint + " does not name its network; name it with --model"};
  if (!flag) return std::move(*own);
  if (!own) return model;
  // A network file may have another name than the network that it described in the run.
  const bool same = own->layers.empty() ? model->name == own->name : model->layers == own->layers;
  if (same) return model;
  return Error{"--model: " + *flag + " differs from the network of " + checkpoint + ", " + own->name +
               "; omit --model"};
}

Result<std::string> model_file(const Arguments& arguments) {
  const auto file = arguments.get("FILE"), flag = arguments.get("--checkpoint");
  if (file && flag) return Error{"--checkpoint cannot be combined with FILE: both name the model"};
  if (!file && !flag) return Error{"FILE is missing: name the model, a safetensors file"};
  const std::string& path = file ? *file : *flag;
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) return model_in(path);
  return path;
}

namespace {

// Reads the model, a full checkpoint or a file with only parameters, and --data.
Result<SavedModel> load_saved_model(const Arguments& arguments) {
  const auto file = model_file(arguments);
  if (!file) return file.error();
  const std::string& path = *file;
  auto model = find_model(arguments, path);
  if (!model) return model.error();
  const auto metadata = training::read_metadata(path);
  if (!metadata) return metadata.error();
  auto given = training::given_by(path, *metadata);
  if (!given) return given.error();
  given->only_test = given->of_model != nullptr;
  auto data = datasets::load(*arguments.get("--data"), data_root(), *given);
  if (!data) return data.error();
  tell_decisions(*data);
  warn(training::warning_of_normalization(path, *given, *data));
  auto plan = training::make_plan(*model, *data);
  if (!plan) return plan.error();
  auto replica = training::read_safetensors(path, plan->layout);
  if (!replica) return replica.error();
  if (Status finite = training::check_finite(path, plan->layout, replica->arena); !finite)
    return finite.error();
  warn(replica->note);
  return SavedModel{path, std::move(*model), std::move(*data), std::move(*plan), std::move(replica->arena)};
}

int evaluate(const Arguments& arguments) {
  const Result<SavedModel> saved = load_saved_model(arguments);
  if (!saved) return refuse(arguments, saved.error());
  const auto backend = kernels::make_backend("cpu");
  if (!backend) return fail(arguments, backend.error());
  const auto score =
      training::Evaluator(saved->plan, **backend, saved->data.test).evaluate(saved->parameters.data());
  const std::size_t samples = saved->data.test.size();
  training::Summary of_text;
  of_text.samples = samples;
  of_text.loss = score.loss;
  training::add_text_figures(of_text, saved->data.test.context, saved->data.characters_per_token());
  if (arguments.has("--json")) {
    Json object = {{"checkpoint", saved->path}, {"model", saved->model.name},
                   {"data", saved->data.name},  {"parameters", saved->plan.layout.parameter_count()},
                   {"samples", samples},        {"accuracy", score.accuracy},
                   {"loss", score.loss}};
    if (of_text.tokens)
      object.update({{"tokens", *of_text.tokens},
                     {"perplexity", *of_text.perplexity},
                     {"bits_per_token", *of_text.bits_per_token},
                     {"bits_per_character", training::or_null(of_text.bits_per_character)}});
    return print_out(training::to_line(object));
  }
  if (of_text.tokens)
    return print_out(
        fmt::format("{} on {}: loss {:.4f} nats, perplexity {:.2f}, next token {}, over {} test "
                    "tokens\n",
                    saved->model.name, saved->data.name, score.loss, *of_text.perplexity,
                    format_percent(score.accuracy), *of_text.tokens));
  return print_out(fmt::format("{} on {}: accuracy {}, loss {:.4f} over {} test samples\n", saved->model.name,
                               saved->data.name, format_percent(score.accuracy), score.loss, samples));
}

int predict(const Arguments& arguments) {
  std::size_t limit = SIZE_MAX;
  if (Status read = read_number<std::size_t>(arguments, "--limit", 1, SIZE_MAX, limit); !read)
    return refuse(arguments, read.error());
  const Result<SavedModel> saved = load_saved_model(arguments);
  if (!saved) return refuse(arguments, saved.error());
  if (saved->data.test.is_text())
    return refuse(arguments, Error{"--data: '" + saved->data.name +
                                   "' is a text; predict classifies images and rows of numbers"});
  const auto backend = kernels::make_backend("cpu");
  if (!backend) return fail(arguments, backend.error());
  const bool json = arguments.has("--json");
  const std::vector<std::uint32_t>& lines = saved->data.test.lines;
  bool first = true;
  if (json) {
    const std::string head = training::to_text({{"checkpoint", saved->path},
                                                {"model", saved->model.name},
                                                {"data", saved->data.name},
                                                {"predictions", Json::array()}});
    print_out(head.substr(0, head.rfind(']')));
  } else {
    print_out(std::string("sample,class,probability,label") + (lines.empty() ? "\n" : ",line\n"));
  }
  training::predict(
      saved->plan, **backend, saved->data.test, saved->parameters.data(), limit,
      [&](const training::Prediction& it) {
        if (json) {
          Json object = {{"sample", it.sample},
                         {"class", it.guess},
                         {"probability", it.probability},
                         {"label", it.label}};
          if (!lines.empty()) object["line"] = lines[it.sample];
          print_out((first ? "\n" : ",\n") + training::to_text(object));
        } else {
          print_out(fmt::format("{},{},{},{}{}\n", it.sample, it.guess, format_number(it.probability),
                                it.label, lines.empty() ? "" : fmt::format(",{}", lines[it.sample])));
        }
        first = false;
      });
  return json ? print_out("\n]}\n") : kExitDone;
}

// --checkpoint, --data and --model, and `more`.
std::vector<Flag> saved_model_flags(std::vector<Flag> more) {
  more.insert(more.begin(), {kCheckpointFlag,
                             {.name = "--data",
                              .placeholder = "NAME-OR-PATH",
                              .help = "the data set, for its test samples",
                              .required = true},
                             {"--model", "NAME-OR-FILE", "the network, if the file does not name it"}});
  return more;
}

}  // namespace

std::vector<Command> saved_model_commands() {
  return {{"evaluate",
           "print accuracy and loss of a saved model",
           {kModelFile},
           saved_model_flags({kJsonFlag}),
           evaluate,
           "starling evaluate runs/run-1/model.safetensors --data mnist"},
          {"predict",
           "print class and probability of each test sample, predicted by a saved model",
           {kModelFile},
           saved_model_flags({{"--limit", "N", "predict only the first N samples"},
                              {"--json", "", "print one JSON object, one sample per line, instead of CSV"}}),
           predict,
           "starling predict runs/run-1/model.safetensors --data mnist --limit 5"}};
}

}  // namespace starling::cli
