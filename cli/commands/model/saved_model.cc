// starling evaluate, predict: how good a saved model is, and what it says of each sample.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/model/model_file.h"
#include "cli/commands/named_files.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/shell/log.h"
#include "datasets/inputs.h"
#include "kernels/by_name/backends.h"
#include "node/keep/checkpointer.h"
#include "training/learning/data_facts.h"
#include "training/learning/evaluator.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/kinds.h"
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
  if (!own) {
    warn(checkpoint + " names no network; its tensors are read as " + model->name + "'s");
    return model;
  }
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
  std::string path = file ? *file : *flag;
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) {
    auto found = model_in(path);
    if (!found) return found;
    path = std::move(*found);
  }
  datasets::note_input(path);
  return path;
}

Result<std::vector<float>> read_parameters(const std::string& path, const models::Layout& layout) {
  auto saved = training::read_safetensors(path, layout);
  if (!saved) return saved.error();
  if (Status finite = training::check_finite(path, layout, saved->arena); !finite) return finite.error();
  warn(saved->note);
  return std::move(saved->arena);
}

namespace {

// Gives data whose labels are numbers the classes of a file with more outputs: the labels may lack the last.
Status take_outputs(const std::string& path, const models::ModelText& model, datasets::DataPair& data,
                    models::Plan& plan) {
  const auto outputs = training::outputs_in(path, plan.layout);
  if (!outputs) return outputs.error();
  const int labels = data.any().classes;
  if (*outputs <= labels || !data.origin.class_names.empty()) return Done{};
  data.train.classes = data.test.classes = *outputs;
  auto wider = training::make_plan(model, data);
  if (!wider) return wider.error();
  warn(fmt::format("{} has {} outputs, and the labels of {} go up to {}", path, *outputs, data.name,
                   labels - 1));
  plan = std::move(*wider);
  return Done{};
}

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
  warn(training::warning_of_description(path, *given, *data));
  auto plan = training::make_plan(*model, *data);
  if (!plan) return plan.error();
  if (given->of_model == nullptr && !data->any().is_text()) {
    if (Status wide = take_outputs(path, *model, *data, *plan); !wide) return wide.error();
  }
  auto parameters = read_parameters(path, plan->layout);
  if (!parameters) return parameters.error();
  return SavedModel{path, std::move(*model), std::move(*data), std::move(*plan), std::move(*parameters)};
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
  if (of_text.tokens) of_text.tokens = saved->data.test.labels_of(0, samples);
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

// The lines of `predict`.
class PredictionLines {
 public:
  PredictionLines(const SavedModel& saved, bool probabilities)
      : names_(saved.data.origin.class_names),
        lines_(saved.data.test.lines),
        classes_(static_cast<std::size_t>(saved.plan.classes)),
        probabilities_(probabilities) {}

  std::string csv_head() const {
    std::string head = "sample,class,probability,label";
    if (!lines_.empty()) head += ",line";
    if (!names_.empty()) head += ",class_name,label_name";
    for (std::size_t c = 0; probabilities_ && c < classes_; ++c)
      head += "," + training::csv_cell("probability_" + (names_.empty() ? std::to_string(c) : name_of(c)));
    return head + "\n";
  }
  std::string csv(const training::Prediction& it) const {
    std::string line =
        fmt::format("{},{},{},{}", it.sample, it.guess, format_number(it.probability), it.label);
    if (!lines_.empty()) line += "," + std::to_string(lines_[it.sample]);
    if (!names_.empty())
      line += "," + training::csv_cell(name_of(it.guess)) + "," + training::csv_cell(name_of(it.label));
    for (std::size_t c = 0; probabilities_ && c < classes_; ++c)
      line += "," + format_number(it.probabilities[c]);
    return line + "\n";
  }
  Json json(const training::Prediction& it) const {
    Json object = {
        {"sample", it.sample}, {"class", it.guess}, {"probability", it.probability}, {"label", it.label}};
    if (!lines_.empty()) object["line"] = lines_[it.sample];
    if (!names_.empty())
      object.update({{"class_name", name_of(it.guess)}, {"label_name", name_of(it.label)}});
    if (probabilities_) object["probabilities"] = it.probabilities;
    return object;
  }

 private:
  std::string name_of(std::size_t c) const { return c < names_.size() ? names_[c] : ""; }

  const std::vector<std::string>& names_;  // of the classes; empty: unknown
  const std::vector<std::uint32_t>& lines_;
  std::size_t classes_;
  bool probabilities_;
};

enum class PredictionForm : std::uint8_t { csv, jsonl, json };

// --format and --json.
Result<PredictionForm> prediction_form(const Arguments& arguments) {
  constexpr std::array<const char*, 3> kForms = {"csv", "jsonl", "json"};  // as PredictionForm
  const auto wanted = arguments.get("--format");
  if (arguments.has("--json")) {
    if (wanted && *wanted != "json") return Error{"--json cannot be combined with --format " + *wanted};
    return PredictionForm::json;
  }
  const auto form = std::ranges::find(kForms, wanted.value_or("csv"));
  if (form == kForms.end())
    return Error{"--format: '" + wanted->substr(0, 80) + "' is unknown; expected " + one_of(kForms)};
  return static_cast<PredictionForm>(form - kForms.begin());
}

void print_predictions(const SavedModel& saved, const kernels::Backend& backend, std::size_t limit,
                       PredictionForm form, bool probabilities) {
  const PredictionLines lines(saved, probabilities);
  if (form == PredictionForm::csv) print_out(lines.csv_head());
  if (form == PredictionForm::json) {
    const std::string head = training::to_text({{"checkpoint", saved.path},
                                                {"model", saved.model.name},
                                                {"data", saved.data.name},
                                                {"predictions", Json::array()}});
    print_out(head.substr(0, head.rfind(']')));
  }
  const char* separator = "\n";
  training::predict(saved.plan, backend, saved.data.test, saved.parameters.data(), limit,
                    [&](const training::Prediction& it) {
                      if (form == PredictionForm::csv) {
                        print_out(lines.csv(it));
                      } else if (form == PredictionForm::jsonl) {
                        print_out(training::to_line(lines.json(it)));
                      } else {
                        print_out(separator + training::to_text(lines.json(it)));
                      }
                      separator = ",\n";
                    });
  if (form == PredictionForm::json) print_out("\n]}\n");
}

int predict(const Arguments& arguments) {
  std::size_t limit = SIZE_MAX;
  if (Status read = read_number<std::size_t>(arguments, "--limit", 1, SIZE_MAX, limit); !read)
    return refuse(arguments, read.error());
  const auto form = prediction_form(arguments);
  if (!form) return refuse(arguments, form.error());
  const Result<SavedModel> saved = load_saved_model(arguments);
  if (!saved) return refuse(arguments, saved.error());
  if (saved->data.test.is_text())
    return refuse(arguments, Error{"--data: '" + saved->data.name +
                                   "' is a text; predict classifies images and rows of numbers"});
  const auto backend = kernels::make_backend("cpu");
  if (!backend) return fail(arguments, backend.error());
  print_predictions(*saved, **backend, limit, *form, arguments.has("--probabilities"));
  return kExitDone;
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
           saved_model_flags(
               {{"--limit", "N", "predict only the first N samples"},
                {"--probabilities", "", "print the probabilities of all classes"},
                {"--format", "FORMAT", "csv (default), jsonl: a JSON object per line, or json: one object"},
                {"--json", "", "the same as --format json"}}),
           predict,
           "starling predict runs/run-1/model.safetensors --data mnist --limit 5"}};
}

}  // namespace starling::cli
