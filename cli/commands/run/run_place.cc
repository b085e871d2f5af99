#include "cli/commands/run/run_place.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "cli/commands/run/experiment_flags.h"
#include "cli/shell/output.h"
#include "lab/made_from.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/records/files.h"

namespace starling::cli {
namespace {

using training::RunFolder;
using training::Summary;

constexpr int kNumbersMost = 1000;

// What a folder holds, compared with a run that is about to begin.
struct Held {
  bool anything = false;
  bool same = false;        // it is of the same experiment
  bool checkpoint = false;  // from which it can continue
  std::string changed{};    // "data.source: the content of my.csv has changed since"; empty: none has
  std::optional<Summary> summary{};  // of the same experiment and mode, unless the run was cut off
};

Result<Held> look_into(const std::string& path, const training::Experiment& experiment,
                       const std::string& mode, const std::string& checkpoint, const ContentsNow& contents) {
  Held held;
  held.anything = RunFolder::holds_results(path);
  const auto text = training::read_own_text(path + "/experiment.toml", training::kLargestExperimentFile);
  held.same = text && training::without_contents(*text) == training::to_toml(experiment);
  if (!held.same) return held;
  std::error_code error;
  held.checkpoint = !checkpoint.empty() && std::filesystem::exists(path + "/" + checkpoint, error);
  const auto written = training::read_own_text(path + "/summary.json", training::kLargestSummary);
  if (!written) return held;
  auto summary = training::parse_summary(*written);
  if (!summary || summary->mode != mode) return held;
  const auto now = contents();
  if (!now) return now.error();
  held.changed = lab::changed_content(experiment, summary->made_from.contents, *now);
  if (held.changed.empty()) held.summary = std::move(*summary);
  return held;
}

Error is_open(const std::string& path, const Held& held) {
  return {fmt::format(
      "{} holds this experiment, {}: continue it with --resume, or begin again with --force, which discards "
      "it",
      path, held.summary ? stopped_at(*held.summary) : "cut off before its end")};
}

// The Error if the initial parameters are in the folder, whose files the run replaces.
Status check_not_in(const std::string& path, const std::optional<std::string>& init) {
  std::error_code none;
  if (!init || !std::filesystem::equivalent(std::filesystem::absolute(*init, none).parent_path(), path, none))
    return Done{};
  return Error{"model.init: " + *init + " is in the folder " + path +
               ", whose files this run replaces; choose another folder with --out"};
}

}  // namespace

Result<RunPlace> place_of_run(const training::Experiment& experiment, const Arguments& arguments,
                              const std::string& mode, const std::string& checkpoint,
                              const ContentsNow& contents) {
  const auto out = output_folder(experiment, arguments);
  if (!out) return out.error();
  const bool resume = !checkpoint.empty() && arguments.has("--resume");
  const bool numbered = !arguments.has("--out") && !arguments.has("--force");
  for (int k = 1; k <= (numbered ? kNumbersMost : 1); ++k) {
    RunPlace place{.path = k == 1 ? *out : *out + "-" + std::to_string(k), .done = {}, .folder = {}};
    auto looked = look_into(place.path, experiment, mode, checkpoint, contents);
    if (!looked) return looked.error();
    Held& held = *looked;
    if (resume && !held.checkpoint && held.anything && numbered) continue;
    if (!resume && !arguments.has("--force")) {
      if (held.summary && !held.summary->interrupted) {
        place.done = std::move(held.summary);
        return place;
      }
      if (!held.changed.empty() && !numbered)
        return Error{"--out: " + held.changed + " the run in " + place.path +
                     "; choose another folder, or use --force to repeat the run"};
      if (held.same && held.checkpoint) return is_open(place.path, held);
      if (held.anything && numbered) continue;
    }
    const std::string path = resume && !held.anything && !held.checkpoint ? *out : place.path;
    if (Status kept = resume ? Done{} : check_not_in(path, experiment.model.init); !kept) return kept.error();
    auto folder = resume ? RunFolder::resume(path) : RunFolder::create(path, arguments.has("--force"));
    if (!folder) return folder.error();
    if (k > 1 && !resume) warn(*out + " holds the results of another run; this one goes to " + place.path);
    place.folder = std::move(*folder);
    return place;
  }
  return Error{*out + " and its numbered siblings are all taken; choose a folder with --out"};
}

}  // namespace starling::cli
