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
#include <string_view>
#include <thread>
#include <vector>

#include "lab/simulate/simulate.h"
#include "lab/thread_pool.h"
#include "training/experiment/experiment_file.h"
#include "training/records/files.h"
#include "training/records/json.h"

namespace starling::lab {
namespace {

namespace fs = std::filesystem;
using training::Json;
using training::Sweep;
using training::SweepPoint;
using Clock = std::chrono::steady_clock;

constexpr auto kBetweenWrites = std::chrono::seconds(10);
constexpr std::size_t kLargestSummary = 64 << 20;  // bytes: 100,000 peers

// The columns of results.csv from a summary, after the values of the lists.
constexpr std::array kResultColumns = {
    "accuracy",          "accuracy_min", "accuracy_max", "loss",       "consensus_distance", "seconds",
    "seconds_to_target", "wall_seconds", "samples",      "bytes_sent", "exchanges",          "trace_hash"};

std::string csv_cell(std::string text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_cell(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? csv_cell(value.get<std::string>()) : value.dump();
}

// A line of the table: the values of all lists except the seeds, and the runs that share them.
struct Combination {
  std::vector<std::string> values;
  std::vector<double> accuracy, seconds, to_target;
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

class Runs {
 public:
  Runs(const Sweep& sweep, const SweepOptions& options) : sweep_(sweep), options_(options) {
    summaries_.resize(sweep.points.size());
  }

  // Finds the runs that are complete.
  Status find_complete() {
    for (std::size_t i = 0; i < sweep_.points.size(); ++i) {
      const std::string folder = folder_of(i);
      if (options_.force || !fs::exists(folder + "/summary.json")) continue;
      const auto experiment =
          training::read_text(folder + "/experiment.toml", training::kLargestExperimentFile);
      const auto summary = training::read_text(folder + "/summary.json", kLargestSummary);
      if (!experiment) return experiment.error();
      if (!summary) return summary.error();
      if (*experiment != training::to_toml(sweep_.points[i].experiment)) {
        return Error{"--out: " + folder +
                     " contains the results of another experiment; choose another folder, or use --force to "
                     "replace them"};
      }
      summaries_[i] = Json::parse(*summary, nullptr, false);
      if (!summaries_[i].is_object())
        return Error{folder + "/summary.json is not the summary of a run; remove it"};
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
        results.push_back(pool.submit([this, i, share = threads / at_once] { return run_one(i, share); }));
      for (auto& result : results) {
        const Status status = result.get();
        if (!status && !problem_) problem_ = status.error();
        if (!status) stopped_ = true;
      }
    }
    const Status written = write();
    if (problem_) return *problem_;
    if (!written) return written.error();
    outcome_.interrupted = stopped_;
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

  // The folder gets its final name when the run is complete.
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
    if (!summary) return Error{point.name + ": " + summary.error().message};
    if (stopped()) return Done{};
    const std::lock_guard lock(mutex_);
    std::error_code problem;
    fs::remove_all(folder_of(i), problem);
    fs::rename(part, folder_of(i), problem);
    if (problem) return Error{"cannot create the folder " + folder_of(i) + ": " + problem.message()};
    const std::string text = training::to_json(*summary);
    summaries_[i] = Json::parse(text);
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

  Status write() const {
    if (Status written = training::write_text(options_.out + "/results.csv", csv()); !written) return written;
    return training::write_text(options_.out + "/results.json", json());
  }

  std::string csv() const {
    std::string text;
    for (const auto& axis : sweep_.axes) text += csv_cell(axis.key) + ",";
    for (const char* column : kResultColumns) text += std::string(column) + ",";
    text += "folder\n";
    for (std::size_t i = 0; i < summaries_.size(); ++i) {
      if (summaries_[i].is_null()) continue;
      for (const std::string& value : sweep_.points[i].values) text += csv_cell(value) + ",";
      for (const char* column : kResultColumns) {
        const Json& value = summaries_[i].at(column);
        text += csv_cell(std::string_view(column) == "exchanges" ? value.at("completed") : value) + ",";
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

  std::vector<Combination> combinations() const {
    std::vector<Combination> all;
    std::map<std::vector<std::string>, std::size_t> places;
    for (std::size_t i = 0; i < summaries_.size(); ++i) {
      if (summaries_[i].is_null()) continue;
      std::vector<std::string> values;
      for (std::size_t k = 0; k < sweep_.axes.size(); ++k)
        if (sweep_.axes[k].key != "seed") values.push_back(sweep_.points[i].values[k]);
      const auto [found, fresh] = places.try_emplace(values, all.size());
      if (fresh) all.emplace_back().values = values;
      Combination& it = all[found->second];
      ++it.runs;
      const auto take = [&](const char* key, std::vector<double>& to) {
        if (summaries_[i].at(key).is_number()) to.push_back(summaries_[i].at(key).get<double>());
      };
      take("accuracy", it.accuracy);
      take("seconds", it.seconds);
      take("seconds_to_target", it.to_target);
    }
    return all;
  }

  std::string table() const {
    std::vector<std::vector<std::string>> lines(1);
    for (const auto& axis : sweep_.axes)
      if (axis.key != "seed") lines[0].push_back(axis.key.substr(axis.key.rfind('.') + 1));
    const bool targets = std::any_of(sweep_.points.begin(), sweep_.points.end(), [](const SweepPoint& point) {
      return point.experiment.end.target_accuracy.has_value();
    });
    lines[0].insert(lines[0].end(), {"runs", "accuracy, median (range)", "seconds"});
    if (targets) lines[0].insert(lines[0].end(), {"seconds to the target", "reached"});
    for (const Combination& it : combinations()) {
      std::vector<std::string> line = it.values;
      line.push_back(std::to_string(it.runs));
      line.push_back(middle_and_range(it.accuracy, "{:.4f}"));
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
  std::mutex mutex_;             // protects all below while runs are under way
  std::vector<Json> summaries_;  // null: not complete
  SweepOutcome outcome_;
  std::optional<Error> problem_;
  std::atomic<bool> stopped_{false};
  Clock::time_point start_, written_at_ = Clock::now();
};

}  // namespace

Result<SweepOutcome> run_sweep(const Sweep& sweep, const SweepOptions& options) {
  std::error_code problem;
  fs::create_directories(options.out, problem);
  if (problem) return Error{"--out: cannot create the folder " + options.out + ": " + problem.message()};
  Runs runs(sweep, options);
  if (Status found = runs.find_complete(); !found) return found.error();
  return runs.run();
}

}  // namespace starling::lab
