// The groups and the table of a report.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "lab/report/report.h"

namespace starling::lab {
namespace {

constexpr std::size_t kLabelsListed = 12;  // in an error

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::string setting(const ReportRun& run, const std::string& key) {
  const auto found = run.settings.find(key);
  return found == run.settings.end() ? "" : found->second;
}

// The settings in which the runs differ, except seed and name.
std::vector<std::string> differing_keys(const std::vector<ReportRun>& runs) {
  std::set<std::string> all;
  for (const ReportRun& run : runs)
    for (const auto& [key, value] : run.settings) all.insert(key);
  std::vector<std::string> keys;
  for (const std::string& key : all) {
    if (key == "seed" || key == "name") continue;
    const bool differs = std::any_of(runs.begin(), runs.end(), [&](const ReportRun& run) {
      return setting(run, key) != setting(runs.front(), key);
    });
    if (differs) keys.push_back(key);
  }
  return keys;
}

// "slow=10, topology=ring": the last part of each key if it is unambiguous, else the key.
std::string label_of(const std::vector<std::string>& keys, const std::vector<std::string>& values) {
  std::string label;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool alone = std::count_if(keys.begin(), keys.end(), [&](const std::string& key) {
                         return last_part(key) == last_part(keys[i]);
                       }) == 1;
    label += (i > 0 ? ", " : "") + (alone ? last_part(keys[i]) : keys[i]) + "=" +
             (values[i].empty() ? "not set" : values[i]);
  }
  return label;
}

void make_groups(Report& report) {
  const bool modes_differ = std::any_of(report.runs.begin(), report.runs.end(), [&](const ReportRun& run) {
    return run.mode != report.runs.front().mode;
  });
  for (ReportRun& run : report.runs)
    if (modes_differ) run.settings["mode"] = run.mode;
  report.keys = differing_keys(report.runs);
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
      group.values = values;
      group.label = label_of(report.keys, values);
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
    if (!one_each) run.label += fmt::format(", seed {}", run.seed);
    ++uses[run.label];
  }
  for (ReportRun& run : report.runs)
    if (uses[run.label] > 1) run.label += " (" + std::filesystem::path(run.folder).filename().string() + ")";
}

// When the mean model passed the target, interpolated between two evaluations.
std::optional<double> time_to(const ReportRun& run, double target) {
  const ReportPoint* before = nullptr;
  for (const ReportPoint& point : run.points) {
    if (!point.accuracy) continue;
    if (*point.accuracy >= target) {
      if (before == nullptr || *point.accuracy <= *before->accuracy) return point.seconds;
      const double part = (target - *before->accuracy) / (*point.accuracy - *before->accuracy);
      return before->seconds + part * (point.seconds - before->seconds);
    }
    before = &point;
  }
  return std::nullopt;
}

double best_of(const ReportRun& run) {
  double best = 0;
  for (const ReportPoint& point : run.points) best = std::max(best, point.accuracy.value_or(0));
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
  const auto& first = report.runs.front().target;
  const bool shared = first && std::all_of(report.runs.begin(), report.runs.end(),
                                           [&](const ReportRun& run) { return run.target == first; });
  if (shared) {
    report.target = first;
    return;
  }
  double reached = 1;
  for (const ReportRun& run : report.runs) {
    const auto evaluations =
        std::count_if(run.points.begin(), run.points.end(),
                      [](const ReportPoint& point) { return point.accuracy.has_value(); });
    if (evaluations < 3) return;
    reached = std::min(reached, best_of(run));
  }
  reached = std::floor(0.99 * reached * 200) / 200;
  if (reached <= 0) return;
  report.target = reached;
  report.target_from_curves = true;
}

std::string cell(std::string text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string cell(const std::optional<double>& value) { return value ? fmt::format("{:.6g}", *value) : ""; }

// The group with this label or value. The Error lists the groups.
Result<std::size_t> group_named(const Report& report, const std::string& name) {
  std::vector<std::size_t> of_value;
  std::string labels;
  for (std::size_t i = 0; i < report.groups.size(); ++i) {
    const ReportGroup& group = report.groups[i];
    if (group.label == name) return i;
    if (std::find(group.values.begin(), group.values.end(), name) != group.values.end())
      of_value.push_back(i);
    if (i < kLabelsListed) labels += (i > 0 ? "; " : "") + group.label;
  }
  if (of_value.size() == 1) return of_value.front();
  if (report.groups.size() > kLabelsListed)
    labels += fmt::format("; and {} more", report.groups.size() - kLabelsListed);
  return Error{fmt::format("{} '{}', to compare against; there {}: {}",
                           of_value.empty() ? "no kind of run is called" : "several kinds of run have",
                           name.substr(0, 80), report.groups.size() == 1 ? "is" : "are", labels)};
}

}  // namespace

Status tabulate(Report& report, const ReportOptions& options) {
  make_groups(report);
  name_runs(report);
  if (options.against) {
    const auto found = group_named(report, *options.against);
    if (!found) return found.error();
    report.reference = *found;
  }
  choose_target(report, options);
  std::vector<std::vector<double>> times;
  for (ReportGroup& group : report.groups) {
    std::vector<double> to_target, accuracy, seconds, bytes;
    for (const std::size_t i : group.runs) {
      ReportRun& run = report.runs[i];
      if (report.target_from_curves) run.seconds_to_target = time_to(run, *report.target);
      if (report.target && run.seconds_to_target) to_target.push_back(*run.seconds_to_target);
      if (run.accuracy) accuracy.push_back(*run.accuracy);
      seconds.push_back(run.seconds);
      bytes.push_back(run.bytes_sent);
    }
    group.reached = to_target.size();
    group.seconds_to_target = spread_of(to_target);
    group.accuracy = spread_of(accuracy);
    group.seconds = spread_of(seconds);
    group.bytes_sent = spread_of(bytes);
    // The times of only those runs that reached the target would flatter the group.
    if (group.reached < group.runs.size()) to_target.clear();
    times.push_back(std::move(to_target));
  }
  for (std::size_t i = 0; i < report.groups.size(); ++i)
    report.groups[i].speedup = speedup(times[report.reference], times[i]);
  const ReportRun& first = report.runs.front();
  report.title = first.name;
  const bool one_name = std::all_of(report.runs.begin(), report.runs.end(),
                                    [&](const ReportRun& run) { return run.name == first.name; });
  if (!one_name) report.title = fmt::format("{} and others", first.name);
  return Done{};
}

std::string to_csv(const Report& report) {
  std::string text;
  for (const std::string& key : report.keys) text += cell(key) + ",";
  if (report.keys.empty()) text += "name,";
  text +=
      "runs,target_accuracy,reached,seconds_to_target_median,seconds_to_target_min,seconds_to_target_max,"
      "seconds_to_target_mean,seconds_to_target_ci95_low,seconds_to_target_ci95_high,speedup,speedup_ci95_"
      "low,"
      "speedup_ci95_high,accuracy_mean,accuracy_ci95_low,accuracy_ci95_high,seconds_mean,bytes_sent_mean\n";
  const auto part = [](const std::optional<Spread>& spread, double Spread::*of) {
    return spread ? cell(std::optional((*spread).*of)) : std::string();
  };
  const auto bound = [](const auto& of, double Interval95::*end) {
    return of && of->interval ? cell(std::optional((*of->interval).*end)) : std::string();
  };
  for (const ReportGroup& group : report.groups) {
    for (const std::string& value : group.values) text += cell(value) + ",";
    if (report.keys.empty()) text += cell(group.label) + ",";
    const auto& time = group.seconds_to_target;
    const std::vector<std::string> cells = {std::to_string(group.runs.size()),
                                            cell(report.target),
                                            std::to_string(group.reached),
                                            part(time, &Spread::median),
                                            part(time, &Spread::least),
                                            part(time, &Spread::most),
                                            part(time, &Spread::mean),
                                            bound(time, &Interval95::low),
                                            bound(time, &Interval95::high),
                                            group.speedup ? cell(std::optional(group.speedup->factor)) : "",
                                            bound(group.speedup, &Interval95::low),
                                            bound(group.speedup, &Interval95::high),
                                            part(group.accuracy, &Spread::mean),
                                            bound(group.accuracy, &Interval95::low),
                                            bound(group.accuracy, &Interval95::high),
                                            part(group.seconds, &Spread::mean),
                                            part(group.bytes_sent, &Spread::mean)};
    for (std::size_t i = 0; i < cells.size(); ++i) text += (i > 0 ? "," : "") + cells[i];
    text += "\n";
  }
  return text;
}

}  // namespace starling::lab
