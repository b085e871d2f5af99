// How long a sweep will take: from its complete runs, and from short ones made for this.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>
#include <tuple>

#include "datasets/dataset.h"
#include "lab/simulate/divided_peer.h"
#include "lab/simulate/simulate.h"
#include "lab/simulate/sweep.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/settings/quantities.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/json.h"

namespace starling::lab {
namespace {

namespace fs = std::filesystem;
using training::Experiment;
using training::SweepPoint;

constexpr std::size_t kMostShortRuns = 8;
constexpr auto kShortRun = std::chrono::milliseconds(500);

// Runs with equal costs per sample.
using CostKind =
    std::tuple<std::string, std::string, std::string, std::uint32_t, std::string, Rule, std::uint32_t>;

CostKind kind_of(const Experiment& e) {
  return {e.model.name,         e.model.layers, e.data.source, e.training.batch_size,
          e.training.precision, e.gossip.rule,  e.peers};
}

struct Cost {
  double fixed = 0, per_sample = 0;  // seconds of real time
};

// Reads a run's figures from its summary. The measured time of training begins at the end of the first step,
// or the first step of all peers where they step together; nullopt if the run has no other.
std::optional<Cost> cost_of(const Experiment& e, double wall, std::optional<double> training,
                            double samples) {
  const double first = e.training.batch_size * (traits(e.gossip.rule).all_at_once() ? e.peers : 1.0);
  if (samples <= first) return std::nullopt;
  const double steps = training.value_or(wall);
  return Cost{std::max(0.0, wall - steps), steps / (samples - first)};
}

// A folder that is deleted with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code ignored;
    std::string pattern = (fs::temp_directory_path(ignored) / "starling-estimate-XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }  // empty if it cannot be made

 private:
  std::string path_;
};

// The cost of a run that is stopped after half a second and two steps.
Result<std::optional<Cost>> short_run(const SweepPoint& point, const SweepOptions& options,
                                      unsigned threads) {
  const ScratchFolder scratch;
  if (scratch.path().empty()) return Error{"cannot make a temporary folder for short runs"};
  const auto folder = training::RunFolder::create(scratch.path(), true);
  if (!folder) return folder.error();
  std::optional<std::chrono::steady_clock::time_point> first;
  int steps = -1;
  SimulateOptions run;
  run.threads = threads;
  run.data_root = options.data_root;
  run.interrupted = [&] {
    const auto now = std::chrono::steady_clock::now();
    if (!first) first = now;
    ++steps;
    return (steps >= 2 && now - *first > kShortRun) || (options.interrupted && options.interrupted());
  };
  const auto summary = simulate(point.experiment, run, *folder);
  if (!summary) return Error{point.name + ": " + summary.error().message};
  return cost_of(point.experiment, summary->wall_seconds, summary->wall_training_seconds,
                 static_cast<double>(summary->samples));
}

// How each peer's devices share its training; nullopt where there is one.
Result<std::vector<std::optional<DividedPeer>>> divided_peers(const Experiment& e,
                                                              const std::string& data_root) {
  std::vector<std::optional<DividedPeer>> peers;
  std::optional<models::Plan> plan;  // for the first peer with several devices
  for (std::uint32_t peer = 0; peer < e.peers; ++peer) {
    const Experiment own = training::of_peer(e, peer);
    peers.emplace_back();
    if (own.training.devices.size() < 2) continue;
    if (!plan) {
      auto data = training::load_data(e, data_root);
      if (!data) return data.error();
      auto made = training::make_plan(e, *data);
      if (!made) return made.error();
      plan = *std::move(made);
    }
    auto divided = divided_peer(own, *plan);
    if (!divided) return divided.error();
    peers.back() = *std::move(divided);
  }
  return peers;
}

// What the devices of the peers divide, without repetition.
std::string text_of(const std::vector<std::optional<DividedPeer>>& peers) {
  std::vector<std::string> texts;
  for (const auto& peer : peers)
    if (peer && std::ranges::find(texts, peer->text) == texts.end()) texts.push_back(peer->text);
  return training::joined(texts, "; ");
}

// Samples that a run consumes at most, or nullopt if only its target accuracy ends it. `epoch`: in the
// training set.
Result<std::optional<double>> samples_of(const Experiment& e, double epoch, const std::string& data_root) {
  std::optional<double> samples;
  const auto limit = [&](double value) { samples = std::min(samples.value_or(value), value); };
  const double batch = e.training.batch_size;
  if (e.end.epochs) limit(*e.end.epochs * epoch);
  if (e.end.steps) limit(static_cast<double>(*e.end.steps) * e.peers * batch);
  if (e.end.seconds) {
    double rate = 0;  // samples per virtual second
    const auto peers = divided_peers(e, data_root);
    if (!peers) return peers.error();
    for (std::uint32_t peer = 0; peer < e.peers; ++peer) {
      const auto& divided = (*peers)[peer];
      const double step = divided ? divided->step : to_seconds(virtual_step(training::of_peer(e, peer)));
      rate += batch / step / training::slowness(e, peer);
    }
    limit(to_seconds(*e.end.seconds) * rate);
  }
  return samples;
}

class Estimate {
 public:
  Estimate(const training::Sweep& sweep, const SweepOptions& options) : sweep_(sweep), options_(options) {}

  Result<SweepEstimate> make() {
    const auto summaries = complete_summaries(sweep_, options_);
    if (!summaries) return summaries.error();
    for (std::size_t i = 0; i < summaries->size(); ++i) {
      const auto divided = divided_peers(sweep_.points[i].experiment, options_.data_root);
      if (!divided) return divided.error();
      result_.runs.push_back(
          {.complete = !(*summaries)[i].empty(), .seconds = {}, .split = text_of(*divided)});
      if (result_.runs.back().complete) add_complete(sweep_.points[i].experiment, (*summaries)[i]);
    }
    result_.measured = costs_.size();
    const auto open = static_cast<std::size_t>(std::count_if(result_.runs.begin(), result_.runs.end(),
                                                             [](const auto& run) { return !run.complete; }));
    const unsigned threads =
        options_.threads > 0 ? options_.threads : std::max(1U, std::thread::hardware_concurrency());
    const auto at_once = static_cast<unsigned>(std::clamp<std::size_t>(open, 1, threads));
    if (Status measured = measure(threads / at_once); !measured) return measured.error();
    for (std::size_t i = 0; i < result_.runs.size(); ++i) {
      if (result_.runs[i].complete) continue;
      const auto seconds = seconds_of(sweep_.points[i].experiment);
      if (!seconds) return seconds.error();
      result_.runs[i].seconds = *seconds;
      result_.seconds += seconds->value_or(0) / at_once;
    }
    return std::move(result_);
  }

 private:
  void add_complete(const Experiment& experiment, const std::string& text) {
    const training::Json summary = training::parse_json(text);
    const auto number = [&](const char* key) -> std::optional<double> {
      const auto at = summary.find(key);
      if (at == summary.end() || !at->is_number()) return std::nullopt;
      return at->get<double>();
    };
    const auto wall = number("wall_seconds"), samples = number("samples");
    if (!wall || !samples) return;
    if (const auto cost = cost_of(experiment, *wall, number("wall_training_seconds"), *samples))
      costs_.try_emplace(kind_of(experiment), *cost);
  }

  // Runs one point of each kind that has no complete run, or of some, evenly selected.
  Status measure(unsigned threads) {
    std::map<CostKind, std::size_t> kinds;
    for (std::size_t i = 0; i < sweep_.points.size(); ++i)
      if (const CostKind kind = kind_of(sweep_.points[i].experiment); !costs_.contains(kind))
        kinds.try_emplace(kind, i);
    std::vector<std::size_t> points;
    for (const auto& [kind, point] : kinds) points.push_back(point);
    const std::size_t runs = std::min(points.size(), kMostShortRuns);
    for (std::size_t k = 0; k < runs; ++k) {
      const SweepPoint& point = sweep_.points[points[k * points.size() / runs]];
      const auto cost = short_run(point, options_, threads);
      if (!cost) return cost.error();
      if (!*cost) continue;
      costs_.emplace(kind_of(point.experiment), **cost);
      ++result_.calibrated;
    }
    for (const auto& [kind, cost] : costs_) {
      mean_.fixed += cost.fixed / static_cast<double>(costs_.size());
      mean_.per_sample += cost.per_sample / static_cast<double>(costs_.size());
    }
    return Done{};
  }

  Result<std::optional<double>> seconds_of(const Experiment& experiment) {
    const int context = models::context_of(models::ModelText{experiment.model.name, experiment.model.layers});
    const auto [epoch, fresh] =
        epochs_.try_emplace(experiment.data.source + "\n" + std::to_string(context), 0);
    if (fresh) {
      auto data = training::load_data(experiment, options_.data_root);
      if (!data) return data.error();
      if (const auto plan = training::make_plan(experiment, *data); !plan) return plan.error();
      epoch->second = static_cast<double>(data->train.size());
    }
    const auto asked = samples_of(experiment, epoch->second, options_.data_root);
    if (!asked) return asked.error();
    const std::optional<double> samples = *asked;
    if (!samples || costs_.empty()) return std::optional<double>();
    const auto known = costs_.find(kind_of(experiment));
    const Cost& cost = known == costs_.end() ? mean_ : known->second;
    return std::optional(cost.fixed + *samples * cost.per_sample);
  }

  const training::Sweep& sweep_;
  const SweepOptions& options_;
  std::map<CostKind, Cost> costs_;
  Cost mean_;
  std::map<std::string, double> epochs_;  // samples, by data set and context
  SweepEstimate result_;
};

}  // namespace

Result<SweepEstimate> estimate_sweep(const training::Sweep& sweep, const SweepOptions& options) {
  return Estimate(sweep, options).make();
}

}  // namespace starling::lab
