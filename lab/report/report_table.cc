// The groups and the table of a report.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "lab/report/report.h"
#include "training/runs/experiment/kinds.h"

namespace starling::lab {
namespace {

constexpr const char* kNotSet = "not set";

std::string setting(const ReportRun& run, const std::string& key) {
  const auto found = run.settings.find(key);
  return found == run.settings.end() ? "" : found->second;
}

// The settings, except seed and name, in which runs differ that they have an effect on.
std::vector<std::string> differing_keys(const std::vector<ReportRun>& runs) {
  std::set<std::string> all;
  for (const ReportRun& run : runs)
    for (const auto& [key, value] : run.settings) all.insert(key);
  std::vector<std::string> keys;
  for (const std::string& key : all) {
    if (key == "seed" || key == "name") continue;
    std::set<std::string> values;
    for (const ReportRun& run : runs)
      if (!run.without_effect.contains(key)) values.insert(setting(run, key));
    if (values.size() > 1) keys.push_back(key);
  }
  return keys;
}

// "slow=10,topology=ring". A setting without effect is left out; several that are not set share their words:
// "slow=10,from/to not set".
std::string label_of(const Report& report, const ReportRun& run, std::vector<std::string> values) {
  std::vector<std::size_t> unset;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].empty() && !run.without_effect.contains(report.keys[i])) unset.push_back(i);
  if (unset.size() == 1) values[unset[0]] = kNotSet;
  std::string text = training::kind_text(report.names, values);
  if (unset.size() < 2) return text;
  std::vector<std::string> names;
  for (const std::size_t i : unset) names.push_back(report.names[i]);
  return fmt::format("{}{}{} {}", text, text.empty() ? "" : ",", fmt::join(names, "/"), kNotSet);
}

// The run of the group that counts and is a simulation with the same seed; null: none.
const ReportRun* twin_of(const Report& report, const ReportGroup& group, const ReportRun& run) {
  if (run.mode != "simulate") return nullptr;
  const auto found = std::ranges::find_if(group.counted, [&](std::size_t other) {
    return report.runs[other].mode == run.mode && report.runs[other].seed == run.seed;
  });
  return found == group.counted.end() ? nullptr : &report.runs[*found];
}

// "a, b and 3 more": the names of the folders.
std::string folders_of(const Report& report, const std::vector<std::size_t>& runs) {
  constexpr std::size_t kListed = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(runs.size(), kListed); ++i)
    text += (i > 0 ? ", " : "") + std::filesystem::path(report.runs[runs[i]].folder).filename().string();
  return runs.size() > kListed ? text + fmt::format(" and {} more", runs.size() - kListed) : text;
}

void make_groups(Report& report) {
  const bool modes_differ = std::any_of(report.runs.begin(), report.runs.end(), [&](const ReportRun& run) {
    return run.mode != report.runs.front().mode;
  });
  for (ReportRun& run : report.runs)
    if (modes_differ) run.settings["mode"] = run.mode;
  report.keys = differing_keys(report.runs);
  report.names = training::short_names(report.keys);
  // Equal values are shown alike, as the first sweep spells them.
  std::map<std::pair<std::string, std::string>, std::string> spelled;
  for (const ReportRun& run : report.runs)
    for (const auto& [key, text] : run.spelled)
      if (run.settings.contains(key)) spelled.try_emplace({key, setting(run, key)}, text);
  std::map<std::vector<std::string>, std::size_t> places;
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    ReportRun& run = report.runs[i];
    std::vector<std::string> values;
    for (const std::string& key : report.keys) values.push_back(setting(run, key));
    // A run without an experiment.toml forms its own group.
    std::vector<std::string> place = values;
    if (run.settings.empty()) place.push_back(run.folder);
    const auto [found, fresh] = places.try_emplace(place, report.groups.size());
    if (fresh) {
      ReportGroup& group = report.groups.emplace_back();
      for (std::size_t k = 0; k < values.size(); ++k)
        if (const auto text = spelled.find({report.keys[k], values[k]}); text != spelled.end())
          values[k] = text->second;
      group.values = values;
      group.label = label_of(report, run, values);
    }
    run.group = found->second;
    report.groups[run.group].runs.push_back(i);
  }
  for (ReportGroup& group : report.groups)
    if (group.label.empty()) group.label = report.runs[group.runs.front()].name;
}

void name_runs(Report& report) {
  std::map<std::string, int> uses;
  const bool one_each = std::all_of(report.groups.begin(), report.groups.end(),
                                    [](const ReportGroup& group) { return group.runs.size() == 1; });
  for (ReportRun& run : report.runs) {
    run.label = report.groups[run.group].label;
    if (!one_each) run.label += fmt::format(",seed={}", run.seed);
    ++uses[run.label];
  }
  for (ReportRun& run : report.runs)
    if (uses[run.label] > 1) run.label += " (" + std::filesystem::path(run.folder).filename().string() + ")";
}

double best_of(const ReportRun& run) {
  double best = 0;
  for (const training::Look& look : run.looks) best = std::max(best, look.accuracy);
  return best;
}

// The runs' own target if they share one; else, if there are curves, 99 % of the best accuracy of the weakest
// run, rounded down to half a point: higher values are noise.
void choose_target(Report& report, const ReportOptions& options) {
  if (options.target) {
    report.target = options.target;
    report.target_from_curves = true;
    return;
  }
  const bool complete = std::any_of(report.runs.begin(), report.runs.end(),
                                    [](const ReportRun& run) { return !run.end.interrupted; });
  const ReportRun& first = report.runs.front();
  const bool shared = first.target && std::ranges::all_of(report.runs, [&](const ReportRun& run) {
                        return run.target == first.target && run.target_is_loss == first.target_is_loss;
                      });
  if (shared) {
    report.target = first.target;
    report.target_is_loss = first.target_is_loss;
    return;
  }
  double reached = 1;
  for (const ReportRun& run : report.runs) {
    if (run.end.interrupted && complete) continue;
    if (run.looks.size() < 3) return;
    reached = std::min(reached, best_of(run));
  }
  reached = std::floor(0.99 * reached * 200) / 200;
  if (reached <= 0) return;
  report.target = reached;
  report.target_from_curves = true;
}

using training::csv_cell;

// Six digits; four of a time, which is not known better.
std::string cell(const std::optional<double>& value) { return value ? fmt::format("{:.6g}", *value) : ""; }
std::string time_cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "";
}

// The runs' times to the target, interpolated between evaluations.
void find_times(Report& report) {
  for (ReportRun& run : report.runs) {
    if (report.target_from_curves)
      run.seconds_to_target = training::time_to(run.looks, *report.target);
    else if (report.target && run.seconds_to_target && report.target_is_loss)
      run.seconds_to_target = training::time_before(run.losses, -*report.target, *run.seconds_to_target);
    else if (report.target && run.seconds_to_target)
      run.seconds_to_target = training::time_before(run.looks, *report.target, *run.seconds_to_target);
  }
}

// The runs in the statistics: the complete ones first, so that a run that was repeated counts once.
void choose_counted(Report& report) {
  for (ReportGroup& group : report.groups) {
    for (const bool interrupted : {false, true}) {
      for (const std::size_t i : group.runs) {
        const ReportRun& run = report.runs[i];
        const bool usable = !run.end.interrupted || (report.target && run.seconds_to_target);
        if (run.end.interrupted == interrupted && usable && twin_of(report, group, run) == nullptr)
          group.counted.push_back(i);
      }
    }
    std::sort(group.counted.begin(), group.counted.end());
  }
}

// A time to the target with the seed of its run.
struct SeedTime {
  std::uint64_t seed = 0;
  double seconds = 0;
};

// The seed of a real run does not determine its result.
bool is_simulated(const Report& report) {
  return std::ranges::all_of(report.runs, [](const ReportRun& run) { return run.mode == "simulate"; });
}

// Whether runs of both kinds have the same seeds, each once.
bool are_paired(const std::vector<SeedTime>& a, const std::vector<SeedTime>& b) {
  return std::ranges::equal(a, b, {}, &SeedTime::seed, &SeedTime::seed) &&
         std::ranges::adjacent_find(a, {}, &SeedTime::seed) == a.end();
}

// The speed-up of a group over the reference. `times`: of each group, by seed; empty if not all of its runs
// reached the target.
std::optional<Speedup> speedup_of(const Report& report, const std::vector<std::vector<SeedTime>>& times,
                                  std::size_t group) {
  std::vector<double> reference, values;
  for (const SeedTime& it : times[report.reference]) reference.push_back(it.seconds);
  for (const SeedTime& it : times[group]) values.push_back(it.seconds);
  return is_simulated(report) && are_paired(times[report.reference], times[group])
             ? paired_speedup(reference, values)
             : speedup(reference, values);
}

}  // namespace

std::string interrupted_at(const ReportRun& run) {
  std::string text = "interrupted";
  if (run.end.epochs) text += fmt::format(" at epoch {:.2g}", *run.end.epochs);
  if (run.end.epochs && run.end.epochs_asked) text += fmt::format(" of {:g}", *run.end.epochs_asked);
  return text;
}

Status tabulate(Report& report, const ReportOptions& options) {
  make_groups(report);
  name_runs(report);
  if (options.against) {
    const auto found = find_group(report, *options.against);
    if (!found) return found.error();
    report.reference = *found;
  }
  choose_target(report, options);
  find_times(report);
  choose_counted(report);
  std::vector<std::vector<SeedTime>> times;
  for (ReportGroup& group : report.groups) {
    std::vector<SeedTime>& by_seed = times.emplace_back();
    std::vector<double> to_target, accuracy, loss, seconds, bytes;
    for (const std::size_t i : group.counted) {
      const ReportRun& run = report.runs[i];
      if (report.target && run.seconds_to_target) {
        to_target.push_back(*run.seconds_to_target);
        by_seed.push_back({run.seed, *run.seconds_to_target});
      }
      if (run.accuracy) accuracy.push_back(*run.accuracy);
      if (run.loss) loss.push_back(*run.loss);
      seconds.push_back(run.seconds);
      bytes.push_back(run.bytes_sent);
    }
    group.reached = to_target.size();
    group.seconds_to_target = log_spread_of(to_target);
    group.accuracy = spread_of(accuracy, {.least = 0, .most = 1});
    group.loss = spread_of(loss, {.least = 0});
    group.seconds = spread_of(seconds, {.least = 0});
    group.bytes_sent = spread_of(bytes, {.least = 0});
    // The times of only those runs that reached the target would flatter the group.
    if (group.reached < group.counted.size()) {
      if (group.seconds_to_target) group.seconds_to_target->interval.reset();
      by_seed.clear();
    }
    std::ranges::sort(by_seed, {}, &SeedTime::seed);
  }
  for (std::size_t i = 0; i < report.groups.size(); ++i)
    if (i != report.reference) report.groups[i].speedup = speedup_of(report, times, i);
  const ReportRun& first = report.runs.front();
  report.title = first.name;
  const bool one_name = std::all_of(report.runs.begin(), report.runs.end(),
                                    [&](const ReportRun& run) { return run.name == first.name; });
  if (!one_name) report.title = fmt::format("{} and others", first.name);
  return Done{};
}

std::string target_text(const Report& report) {
  return report.target_is_loss ? fmt::format("a loss of {:g}", *report.target)
                               : fmt::format("{:g} %", 100 * *report.target);
}

std::string to_csv(const Report& report) {
  std::string text;
  for (const std::string& name : report.names) text += csv_cell(name) + ",";
  if (report.keys.empty()) text += "name,";
  text +=
      "runs,target_accuracy,reached,seconds_to_target_median,seconds_to_target_min,seconds_to_target_max,"
      "seconds_to_target_geomean,seconds_to_target_ci95_low,seconds_to_target_ci95_high,speedup,speedup_ci95_"
      "low,speedup_ci95_high,accuracy_mean,accuracy_ci95_low,accuracy_ci95_high,seconds_mean,bytes_sent_"
      "mean,loss_mean,loss_ci95_low,loss_ci95_high,target_loss\n";
  const auto part = [](const std::optional<Spread>& spread, double Spread::*of) {
    return spread ? cell(std::optional((*spread).*of)) : std::string();
  };
  const auto time_part = [](const std::optional<Spread>& spread, double Spread::*of) {
    return spread ? time_cell(std::optional((*spread).*of)) : std::string();
  };
  const auto bound = [](const auto& of, double Interval95::*end) {
    return of && of->interval ? std::optional((*of->interval).*end) : std::nullopt;
  };
  for (const ReportGroup& group : report.groups) {
    for (const std::string& value : group.values) text += csv_cell(value) + ",";
    if (report.keys.empty()) text += csv_cell(group.label) + ",";
    const auto& time = group.seconds_to_target;
    const std::vector<std::string> cells = {
        std::to_string(group.counted.size()),
        report.target_is_loss ? "" : cell(report.target),
        std::to_string(group.reached),
        time_part(time, &Spread::median),
        time_part(time, &Spread::least),
        time_part(time, &Spread::most),
        time_part(time, &Spread::mean),
        time_cell(bound(time, &Interval95::low)),
        time_cell(bound(time, &Interval95::high)),
        group.speedup ? time_cell(std::optional(group.speedup->factor)) : "",
        time_cell(bound(group.speedup, &Interval95::low)),
        time_cell(bound(group.speedup, &Interval95::high)),
        part(group.accuracy, &Spread::mean),
        cell(bound(group.accuracy, &Interval95::low)),
        cell(bound(group.accuracy, &Interval95::high)),
        part(group.seconds, &Spread::mean),
        part(group.bytes_sent, &Spread::mean),
        part(group.loss, &Spread::mean),
        cell(bound(group.loss, &Interval95::low)),
        cell(bound(group.loss, &Interval95::high)),
        report.target_is_loss ? cell(report.target) : ""};
    for (std::size_t i = 0; i < cells.size(); ++i) text += (i > 0 ? "," : "") + cells[i];
    text += "\n";
  }
  return text;
}

std::vector<std::string> set_aside(const Report& report) {
  std::vector<std::size_t> repeated, contrary, interrupted;
  std::set<std::string> makers;
  for (const ReportGroup& group : report.groups) {
    for (const std::size_t i : group.runs) {
      const ReportRun& run = report.runs[i];
      if (!run.program.empty()) makers.insert(run.program);
      if (std::ranges::binary_search(group.counted, i)) continue;
      const ReportRun* const twin = twin_of(report, group, run);
      if (run.end.interrupted || twin == nullptr)
        interrupted.push_back(i);
      else
        (twin->trace_hash == run.trace_hash ? repeated : contrary).push_back(i);
    }
  }
  std::vector<std::string> sentences;
  const auto tell = [&](const char* what, const std::vector<std::size_t>& runs) {
    if (!runs.empty())
      sentences.push_back(fmt::format("{}: {} ({})", what, runs.size(), folders_of(report, runs)));
  };
  tell("Simulations that repeat a seed of their kind are not counted", repeated);
  tell(
      "Simulations that have the settings, contents and seed of another one, but another trace, are not "
      "counted",
      contrary);
  if (report.runs.size() > 1)
    tell("Interrupted runs count only if they had reached the target; not counted", interrupted);
  if (makers.size() > 1)
    sentences.push_back(fmt::format("The runs were made by {}", fmt::join(makers, " and ")));
  return sentences;
}

std::string few_seeds(const Report& report) {
  std::size_t least = kFewSeeds;
  for (const ReportGroup& group : report.groups)
    if (group.counted.size() > 1) least = std::min(least, group.counted.size());
  if (least == kFewSeeds) return "";
  return fmt::format("{} seeds: intervals mean little; {} or more are usual", least, kFewSeeds);
}

}  // namespace starling::lab
