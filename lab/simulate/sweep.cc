#include "lab/simulate/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "lab/made_from.h"
#include "lab/simulate/simulate.h"
#include "lab/thread_pool.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/check.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/kinds.h"
#include "training/runs/experiment/settings/effects.h"
#include "training/runs/records/files.h"
#include "training/runs/records/json.h"
#include "training/runs/records/looks.h"

namespace starling::lab {
namespace {

namespace fs = std::filesystem;
using training::Json;
using training::Sweep;
using training::SweepPoint;
using Clock = std::chrono::steady_clock;

constexpr auto kBetweenWrites = std::chrono::seconds(10);
constexpr std::size_t kLargestMetrics = std::size_t{1} << 30;

// The columns of results.csv from a summary, after the values of the lists.
constexpr std::array kResultColumns = {
    "accuracy",          "accuracy_min", "accuracy_max", "loss",       "consensus_distance", "seconds",
    "seconds_to_target", "wall_seconds", "samples",      "bytes_sent", "exchanges",          "trace_hash"};

using training::csv_cell;

std::string json_cell(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_number_float()) return fmt::format("{:.10g}", value.get<double>());
  return value.is_string() ? csv_cell(value.get<std::string>()) : value.dump();
}

// A line of the table: the values of all lists except the seeds, and the runs that share them.
struct Combination {
  std::vector<std::string> values;
  std::vector<double> accuracy, loss, seconds, bytes, to_target;  // bytes: in millions
  std::size_t runs = 0;
};

std::string middle_and_range(std::vector<double> values, const char* form) {
  if (values.empty()) return "-";
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  const std::string text = fmt::format(fmt::runtime(form), median);
  if (values.size() == 1) return text;
  return text + " (" + fmt::format(fmt::runtime(form), values.front()) + " to " +
         fmt::format(fmt::runtime(form), values.back()) + ")";
}

using Contents = std::map<std::string, std::string>;

// What the experiment names, whose content is not in experiment.toml.
std::vector<std::string> named_contents(const training::Experiment& experiment) {
  std::vector<std::string> names = {experiment.data.source, experiment.model.init.value_or(""),
                                    experiment.data.own_data.value_or("")};
  for (const training::OwnSettings& own : experiment.own)
    for (const auto& [key, value] : own.values)
      if (key == "data.own_data") names.push_back(own.peers.text() + ":" + value);
  return names;
}

training::Summary summary_in(const std::string& text) {
  auto read = training::parse_summary(text);
  return read ? std::move(*read) : training::Summary{};
}

class Runs {
 public:
  Runs(const Sweep& sweep, const SweepOptions& options)
      : sweep_(sweep), options_(options), names_(training::axis_names(sweep.axes)) {
    summaries_.resize(sweep.points.size());
    to_target_.resize(sweep.points.size());
    kinds_.resize(sweep.points.size());
  }

  // Finds the runs that are complete.
  Status find_complete() {
    const auto summaries = complete_summaries(sweep_, options_);
    if (!summaries) return summaries.error();
    for (std::size_t i = 0; i < summaries->size(); ++i) {
      if ((*summaries)[i].empty()) continue;
      summaries_[i] = training::parse_json((*summaries)[i]);
      kinds_[i] = kind_of_simulation(sweep_.points[i].experiment, summary_in((*summaries)[i]));
      to_target_[i] = time_to_target(i);
      ++outcome_.kept;
    }
    return Done{};
  }

  Result<SweepOutcome> run() {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < summaries_.size(); ++i)
      if (summaries_[i].is_null()) open.push_back(i);
    const unsigned threads =
        options_.threads > 0 ? options_.threads : std::max(1U, std::thread::hardware_concurrency());
    const auto at_once = static_cast<unsigned>(std::clamp<std::size_t>(open.size(), 1, threads));
    start_ = Clock::now();
    {
      ThreadPool pool(at_once);
      std::vector<std::future<Status>> results;
      for (const std::size_t i : open)
        results.push_back(pool.submit([this, i, share = threads / at_once] {
          const Status status = run_one(i, share);
          if (!status) stopped_ = true;
          return status;
        }));
      for (auto& result : results) {
        const Status status = result.get();
        if (!status && !problem_) problem_ = status.error();
      }
    }
    const Status written = write();
    if (problem_) return *problem_;
    if (!outcome_.failures.empty() && !options_.keep_going) {
      const auto& [name, reason] = outcome_.failures.front();
      return Error{name + ": " + reason};
    }
    if (!written) return written.error();
    outcome_.interrupted = stopped_;
    find_late_faults();
    outcome_.table = table();
    outcome_.json = json();
    return outcome_;
  }

 private:
  std::string folder_of(std::size_t i) const { return options_.out + "/" + sweep_.points[i].name; }

  bool stopped() {
    if (options_.interrupted && options_.interrupted()) stopped_ = true;
    return stopped_;
  }

  void find_late_faults() {
    for (std::size_t i = 0; i < summaries_.size(); ++i) {
      if (summaries_[i].is_null()) continue;
      const training::Experiment& experiment = sweep_.points[i].experiment;
      std::string text =
          training::warning_of_late_faults(experiment, summaries_[i].at("seconds").get<double>());
      if (!text.empty()) outcome_.late_faults.emplace_back(sweep_.points[i].name, std::move(text));
    }
  }

  // The folder gets its final name when the run is complete, and is removed if it does not get there.
  Status run_one(std::size_t i, unsigned threads) {
    if (stopped()) return Done{};
    const SweepPoint& point = sweep_.points[i];
    const std::string part = folder_of(i) + ".part";
    const auto folder = training::RunFolder::create(part, true);
    if (!folder) return folder.error();
    SimulateOptions options;
    options.threads = std::max(1U, threads);
    options.data_root = options_.data_root;
    options.interrupted = [this] { return stopped(); };
    const auto summary = simulate(point.experiment, options, *folder);
    std::error_code problem;
    if (!summary || stopped()) {
      fs::remove_all(part, problem);
      if (!summary) note_failure(point, summary.error().message);
      return Done{};
    }
    const std::lock_guard lock(mutex_);
    fs::remove_all(folder_of(i), problem);
    fs::rename(part, folder_of(i), problem);
    if (problem) return Error{"cannot create the folder " + folder_of(i) + ": " + problem.message()};
    if (const std::string changed = note_contents(point.experiment, summary->made_from); !changed.empty())
      return Error{folder_of(i) + ": " + changed +
                   " other runs of this sweep were made; repeat them with --force"};
    kinds_[i] = kind_of_simulation(point.experiment, *summary);
    const std::string text = training::to_json(*summary);
    summaries_[i] = Json::parse(text);
    to_target_[i] = time_to_target(i);
    ++outcome_.ran;
    if (Clock::now() - written_at_ > kBetweenWrites) {  // a write takes long: it contains all runs
      written_at_ = Clock::now();
      if (Status written = write(); !written) return written;
    }
    if (options_.finished) {
      const std::chrono::duration<double> seconds = Clock::now() - start_;
      options_.finished(point, outcome_.ran + outcome_.kept, sweep_.points.size(), seconds.count(), text);
    }
    return Done{};
  }

  // The sentence of changed_content() if a run before had the same names and other contents.
  std::string note_contents(const training::Experiment& experiment, const training::MadeFrom& made) {
    const auto [known, fresh] = contents_.try_emplace(named_contents(experiment), made.contents);
    return fresh ? "" : changed_content(experiment, known->second, made.contents);
  }

  void note_failure(const SweepPoint& point, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    outcome_.failures.emplace_back(point.name, reason);
    if (!options_.keep_going) stopped_ = true;
    if (options_.failed) options_.failed(point, reason);
  }

  // The time at which a complete run reached its target, interpolated between two evaluations.
  std::optional<double> time_to_target(std::size_t i) const {
    const training::EndSettings& end = sweep_.points[i].experiment.end;
    const auto seconds = summaries_[i].find("seconds_to_target");
    if (!training::has_target(end) || seconds == summaries_[i].end() || !seconds->is_number())
      return std::nullopt;
    const auto metrics = training::read_own_text(folder_of(i) + "/metrics.jsonl", kLargestMetrics);
    if (!metrics) return seconds->get<double>();
    if (end.target_accuracy && end.target_loss) return seconds->get<double>();
    return end.target_accuracy ? training::time_before(training::looks_in(*metrics), *end.target_accuracy,
                                                       seconds->get<double>())
                               : training::time_before(training::losses_in(*metrics), -*end.target_loss,
                                                       seconds->get<double>());
  }

  Status write() const {
    if (Status written = training::write_text(options_.out + "/results.csv", csv()); !written) return written;
    return training::write_text(options_.out + "/results.json", json());
  }

  std::string csv() const {
    std::string text;
    for (const std::string& name : names_) text += csv_cell(name) + ",";
    for (const char* column : kResultColumns) text += std::string(column) + ",";
    text += "folder\n";
    for (std::size_t i = 0; i < summaries_.size(); ++i) {
      if (summaries_[i].is_null()) continue;
      for (const std::string& value : sweep_.points[i].values) text += csv_cell(value) + ",";
      for (const std::string_view column : kResultColumns) {
        const Json& value = summaries_[i].at(std::string(column));
        if (column == "seconds_to_target")
          text += (to_target_[i] ? fmt::format("{:.4g}", *to_target_[i]) : "") + ",";
        else
          text += json_cell(column == "exchanges" ? value.at("completed") : value) + ",";
      }
      text += csv_cell(sweep_.points[i].name) + "\n";
    }
    return text;
  }

  std::string json() const {
    Json runs = Json::array();
    for (std::size_t i = 0; i < summaries_.size(); ++i) {
      if (summaries_[i].is_null()) continue;
      Json values = Json::object();
      for (std::size_t k = 0; k < sweep_.axes.size(); ++k)
        values[sweep_.axes[k].key] = sweep_.points[i].values[k];
      runs.push_back(
          {{"values", std::move(values)}, {"folder", sweep_.points[i].name}, {"summary", summaries_[i]}});
    }
    return training::to_line({{"runs", std::move(runs)}});
  }

  // Runs of one kind are in one line, with the values of its first run; those without effect are empty. A run
  // that repeats another one is not counted.
  std::vector<Combination> combinations() const {
    std::vector<Combination> all;
    std::map<std::string, std::size_t> places;
    std::set<std::pair<std::size_t, std::uint64_t>> seen;  // lines and seeds
    for (std::size_t i = 0; i < summaries_.size(); ++i) {
      if (summaries_[i].is_null()) continue;
      const training::Experiment& experiment = sweep_.points[i].experiment;
      const auto [found, fresh] = places.try_emplace(kinds_[i], all.size());
      if (fresh) all.emplace_back().values = values_with_effect(i);
      if (!seen.emplace(found->second, experiment.seed).second) continue;
      Combination& it = all[found->second];
      ++it.runs;
      const auto take = [&](const char* key, std::vector<double>& to) {
        if (summaries_[i].at(key).is_number()) to.push_back(summaries_[i].at(key).get<double>());
      };
      take("accuracy", it.accuracy);
      take("loss", it.loss);
      take("seconds", it.seconds);
      it.bytes.push_back(summaries_[i].at("bytes_sent").get<double>() / 1e6);
      if (to_target_[i]) it.to_target.push_back(*to_target_[i]);
    }
    return all;
  }

  std::vector<std::string> values_with_effect(std::size_t i) const {
    std::vector<std::string> values;
    for (std::size_t k = 0; k < sweep_.axes.size(); ++k) {
      const std::string& key = sweep_.axes[k].key;
      if (key == "seed") continue;
      const bool counts = training::has_virtual_effect(sweep_.points[i].experiment, key);
      values.push_back(counts ? sweep_.points[i].values[k] : "");
    }
    return values;
  }

  std::string table() const {
    std::vector<std::vector<std::string>> lines(1);
    for (const std::string& name : names_)
      if (name != "seed") lines[0].push_back(name);
    const auto any_has = [&](auto has) {
      return std::ranges::any_of(sweep_.points, [&](const SweepPoint& it) { return has(it.experiment.end); });
    };
    const bool targets = any_has(training::has_target);
    const bool losses = any_has([](const training::EndSettings& end) { return end.target_loss.has_value(); });
    lines[0].insert(lines[0].end(), {"runs", losses ? "loss, median (range)" : "accuracy, median (range)"});
    if (losses) lines[0].push_back("MB sent");
    lines[0].push_back("seconds");
    if (targets) lines[0].insert(lines[0].end(), {"seconds to the target", "reached"});
    for (const Combination& it : combinations()) {
      std::vector<std::string> line = it.values;
      line.push_back(std::to_string(it.runs));
      line.push_back(middle_and_range(losses ? it.loss : it.accuracy, "{:.4f}"));
      if (losses) line.push_back(middle_and_range(it.bytes, "{:.1f}"));
      line.push_back(middle_and_range(it.seconds, "{:.1f}"));
      if (targets) {
        line.push_back(middle_and_range(it.to_target, "{:.1f}"));
        line.push_back(fmt::format("{} of {}", it.to_target.size(), it.runs));
      }
      lines.push_back(std::move(line));
    }
    std::vector<std::size_t> widths(lines[0].size());
    for (const auto& line : lines)
      for (std::size_t k = 0; k < line.size(); ++k) widths[k] = std::max(widths[k], line[k].size());
    std::string text;
    for (const auto& line : lines) {
      std::string row;
      for (std::size_t k = 0; k < line.size(); ++k)
        row += fmt::format("{:<{}}", line[k], k + 1 < line.size() ? widths[k] + 2 : 0);
      text += row + "\n";
    }
    return text;
  }

  const Sweep& sweep_;
  const SweepOptions& options_;
  const std::vector<std::string> names_;          // of the lists
  std::mutex mutex_;                              // protects all below while runs are under way
  std::vector<Json> summaries_;                   // null: not complete
  std::vector<std::optional<double>> to_target_;  // seconds, of complete runs
  std::map<std::vector<std::string>, Contents> contents_;
  std::vector<std::string> kinds_;  // kind_of_simulation() of complete runs
  SweepOutcome outcome_;
  std::optional<Error> problem_;
  std::atomic<bool> stopped_{false};
  Clock::time_point start_, written_at_ = Clock::now();
};

}  // namespace

Result<std::vector<std::string>> complete_summaries(const Sweep& sweep, const SweepOptions& options) {
  std::vector<std::string> summaries(sweep.points.size());
  std::map<std::vector<std::string>, Contents> now;  // by their names
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const std::string folder = options.out + "/" + sweep.points[i].name;
    if (options.force || !fs::exists(folder + "/summary.json")) continue;
    const auto experiment =
        training::read_own_text(folder + "/experiment.toml", training::kLargestExperimentFile);
    auto summary = training::read_own_text(folder + "/summary.json", training::kLargestSummary);
    if (!experiment) return experiment.error();
    if (!summary) return summary.error();
    if (training::without_contents(*experiment) != training::to_toml(sweep.points[i].experiment)) {
      return Error{"--out: " + folder +
                   " contains the results of another experiment; choose another folder, or use --force to "
                   "replace them"};
    }
    if (!training::parse_json(*summary).is_object())
      return Error{folder + "/summary.json is not the summary of a run; remove it"};
    const training::Experiment& its = sweep.points[i].experiment;
    const auto [known, fresh] = now.try_emplace(named_contents(its));
    if (fresh) {
      auto data = training::load_data(its, options.data_root);
      if (!data) return data.error();
      const auto own = training::load_own_data(its, options.data_root, *data);
      if (!own) return own.error();
      auto contents = contents_of(its, *data, *own);
      if (!contents) return contents.error();
      known->second = std::move(*contents);
    }
    const std::string changed = changed_content(its, summary_in(*summary).made_from.contents, known->second);
    if (!changed.empty())
      return Error{"--out: " + changed + " the run in " + folder +
                   "; choose another folder, or use --force to repeat the runs"};
    summaries[i] = std::move(*summary);
  }
  return summaries;
}

Result<SweepOutcome> run_sweep(const Sweep& sweep, const SweepOptions& options) {
  std::error_code problem;
  fs::create_directories(options.out, problem);
  if (problem) return Error{"--out: cannot create the folder " + options.out + ": " + problem.message()};
  Runs runs(sweep, options);
  if (Status found = runs.find_complete(); !found) return found.error();
  return runs.run();
}

}  // namespace starling::lab
