#include "lab/simulate/all_reduce.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "lab/simulate/ensemble.h"
#include "lab/simulate/ring.h"
#include "lab/simulate/virtual_run.h"
#include "training/experiment/conditions.h"
#include "training/experiment/settings.h"
#include "training/replica/recipe.h"

namespace starling::lab {
namespace {

using training::Experiment;

// The ends of a run besides the target.
struct End {
  End(const Experiment& experiment, std::uint64_t epoch_samples) {
    if (experiment.epochs)
      samples =
          static_cast<std::uint64_t>(std::ceil(*experiment.epochs * static_cast<double>(epoch_samples)));
    if (experiment.steps) {
      const std::uint64_t all = *experiment.steps * experiment.peers * experiment.batch_size;
      samples = std::min(samples.value_or(all), all);
    }
    if (experiment.seconds) at = Instant{*experiment.seconds};
  }
  std::optional<std::uint64_t> samples{};
  Instant at = kNever;
};

class AllReduceRun {
 public:
  AllReduceRun(const SimulateOptions& options, const training::RunFolder& folder, VirtualRun& run,
               std::vector<std::unique_ptr<training::Worker>> workers, std::span<const float> first)
      : experiment_(run.experiment()),
        options_(options),
        folder_(folder),
        run_(run),
        ensemble_(std::move(workers), run.plan(), first, run.pool()),
        ring_(experiment_, run.plan().layout.arena_size()),
        end_(experiment_, run.epoch_samples()) {}

  Result<training::Summary> run() {
    while (!over_ && (!end_.samples || samples_ < *end_.samples)) {
      if (options_.interrupted && options_.interrupted()) break;
      if (Status stepped = step(); !stepped) return stepped.error();
    }
    return finish();
  }

 private:
  Status step();
  Status train(Instant computed, Instant done);
  bool evaluate();
  Result<training::Summary> finish();
  static Error stopped(const std::string& how, Instant at) {
    return Error{how + " after " + format_number(to_seconds(at.since_start)) +
                 " s, and all-reduce cannot go on without it"};
  }
  std::uint64_t step_samples() const { return std::uint64_t{experiment_.peers} * experiment_.batch_size; }
  std::uint64_t bytes_sent() const { return ensemble_.steps() * ring_.bytes_per_step(); }

  const Experiment& experiment_;
  const SimulateOptions& options_;
  const training::RunFolder& folder_;
  VirtualRun& run_;
  Ensemble ensemble_;
  Ring ring_;
  const End end_;
  Instant now_{};
  std::uint64_t samples_ = 0, trace_ = 0;
  std::optional<double> learning_rate_{};
  bool over_ = false;
};

Status AllReduceRun::step() {
  const Instant computed = ring_.computed(now_, ensemble_.steps());
  const Instant done = computed == kNever ? kNever : ring_.reduced(computed);
  const auto& crash = ring_.first_crash();
  if (crash && crash->at <= std::min(done, end_.at))
    return stopped("p" + std::to_string(crash->machine) + " crashed", crash->at);
  over_ = done > end_.at;
  if (over_) return Done{};
  if (done == kNever) return stopped("p" + std::to_string(ring_.asleep()) + " was paused for good", now_);
  return train(computed, done);
}

Status AllReduceRun::train(Instant computed, Instant done) {
  const double factor = training::step_rate_factor(
      run_.rate().schedule, samples_, static_cast<std::uint32_t>(step_samples()), run_.epoch_samples());
  if (!ensemble_.step(factor)) {
    return Error{"the loss is not finite after " + std::to_string(ensemble_.steps()) +
                 " steps; a smaller training.learning_rate may help"};
  }
  ring_.draw_step(now_, computed, done);
  now_ = done;
  samples_ += step_samples();
  learning_rate_ = run_.rate().base * factor;
  trace_ = hash64(std::as_bytes(std::span(&now_, 1)), trace_);
  trace_ = hash64(std::as_bytes(ensemble_.losses()), trace_);
  run_.stepped(now_, samples_, end_.samples.value_or(0));
  if (run_.evaluation_is_due(samples_)) over_ = evaluate();
  return Done{};
}

// True if the target is reached.
bool AllReduceRun::evaluate() {
  const double seconds = to_seconds(now_.since_start);
  for (std::uint32_t i = 0; i < experiment_.peers; ++i) {
    training::MetricsLine line;
    line.seconds = seconds;
    line.peer = "p" + std::to_string(i);
    line.steps = line.exchanges = ensemble_.steps();
    line.samples = ensemble_.steps() * experiment_.batch_size;
    line.bytes_sent = bytes_sent() / experiment_.peers;
    line.loss = ensemble_.smoothed_loss(i);
    line.learning_rate = learning_rate_;
    run_.add_line(line);
  }
  VirtualRun::Evaluation evaluation;
  evaluation.replicas.push_back(ensemble_.replica());
  evaluation.line.seconds = seconds;
  evaluation.line.steps = ensemble_.steps() * experiment_.peers;
  evaluation.line.samples = samples_;
  evaluation.line.exchanges = ensemble_.steps();
  evaluation.line.bytes_sent = bytes_sent();
  evaluation.trained = now_.since_start;
  return run_.evaluate(std::move(evaluation));
}

Result<training::Summary> AllReduceRun::finish() {
  if (auto written = folder_.write("timeline.jsonl", ring_.timelines()); !written) return written.error();
  training::Summary summary;
  summary.staleness.counts()[0] = ensemble_.steps();  // no step lands during a sum
  for (std::uint32_t i = 0; i < experiment_.peers; ++i) {
    training::PeerRecord record;
    record.name = "p" + std::to_string(i);
    record.steps = record.exchanges = ensemble_.steps();
    record.samples = ensemble_.steps() * experiment_.batch_size;
    record.slow = training::slowness(experiment_, i);
    record.state = "finished";
    summary.per_peer.push_back(record);
  }
  summary.exchanges.completed = ensemble_.steps();
  summary.bytes_sent = bytes_sent();
  summary.samples = samples_;
  summary.seconds = to_seconds(now_.since_start);
  return run_.finish(std::move(summary), {ensemble_.replica()}, {}, trace_);
}

}  // namespace

Result<training::Summary> simulate_all_reduce(const Experiment& experiment, const SimulateOptions& options,
                                              const training::RunFolder& folder) {
  auto run = VirtualRun::make(experiment, options, folder);
  if (!run) return run.error();
  const auto first = training::starting_parameters(experiment, (*run)->plan());
  if (!first) return first.error();
  if (Status begun = (*run)->begin(); !begun) return begun.error();
  std::vector<std::unique_ptr<training::Worker>> workers;
  for (std::uint32_t i = 0; i < experiment.peers; ++i) {
    VirtualRun::Workers own = (*run)->workers(i);
    if (!own) return own.error();
    workers.push_back(std::move(own->front()));
  }
  return AllReduceRun(options, folder, **run, std::move(workers), *first).run();
}

}  // namespace starling::lab
