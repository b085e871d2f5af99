// The baselines without gossip in virtual time: bulk-synchronous data-parallel training, in rounds. With
// all-reduce a round is a step: each peer computes the gradient of its own batch on the same parameters, all
// get the mean of all gradients, and all take the same optimizer step. With diloco each peer makes H steps
// alone, and an outer step of all peers ends the round (training/mixing/rules/diloco.h). The sum of P floats
// of b bytes goes around a ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", JPDC 2009). For n peers a round lasts
//   max over peers of the sum over its steps of (pace x slowness)  +  2 (n - 1) turns,
//   a turn: max over the ring's links i -> i+1 of (b ceil(P / n) bytes / bandwidth + latency),
// where the bandwidth is at most a machine's network card's (network.port), and lost frames arrive later
// (wire/loss.h). A paused peer stops all, at the beginning and the end of a step and of each turn.
//
// Batches, partition, random slowness, learning rates, evaluations and results are as under the other rules.
// Evaluations and the end follow whole rounds. Where steps or epochs end the run, its last round is as long
// as what is left, and averages all fragments.
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
#include "lab/simulate/run_watch.h"
#include "lab/simulate/virtual_run.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::lab {
namespace {

using training::Experiment;

// The ends of a run besides the target.
struct End {
  End(const Experiment& experiment, std::uint64_t epoch_samples) {
    if (experiment.end.epochs)
      samples =
          static_cast<std::uint64_t>(std::ceil(*experiment.end.epochs * static_cast<double>(epoch_samples)));
    if (experiment.end.steps) {
      const std::uint64_t all = *experiment.end.steps * experiment.peers * experiment.training.batch_size;
      samples = std::min(samples.value_or(all), all);
    }
    if (experiment.end.seconds) at = Instant{*experiment.end.seconds};
  }

  std::optional<std::uint64_t> samples{};
  Instant at = kNever;
};

std::size_t frame_bytes_of(const Experiment& experiment) {
  const std::size_t cell_floats = training::MixOptions{}.cell_floats;
  const std::size_t cells =
      training::chunk_cells(experiment, cell_floats).value_or(WorldOptions{}.chunk_cells);
  return sizeof(float) * cell_floats * cells;
}

std::uint64_t steps_in_round(const Experiment& experiment) {
  const RuleTraits& rule = traits(experiment.gossip.rule);
  if (rule.meeting == Meeting::every_step) return 1;
  return pace_of_fragment(rule, training::resolved_every(experiment), experiment.gossip.fragments).steps;
}

class AllReduceRun {
 public:
  AllReduceRun(const SimulateOptions& options, const training::RunFolder& folder, VirtualRun& run,
               const FirstCopies& copies, std::unique_ptr<Ensemble> ensemble)
      : experiment_(run.experiment()),
        options_(options),
        folder_(folder),
        run_(run),
        ensemble_(std::move(ensemble)),
        ring_(experiment_, run.steps(), frame_bytes_of(experiment_)),
        end_(experiment_, run.epoch_samples()),
        round_steps_(steps_in_round(experiment_)),
        begun_(copies.done),
        now_(copies.done),
        bytes_sent_(copies.bytes) {
    if (end_.at != kNever) end_.at = end_.at + begun_.since_start;
  }

  Result<training::Summary> run() {
    while (!over_ && steps_left() > 0) {
      interrupted_ = options_.interrupted && options_.interrupted();
      if (interrupted_) break;
      if (Status made = round(); !made) return made.error();
    }
    return finish();
  }

 private:
  // What a round takes, known before it is trained.
  struct Round {
    std::uint64_t steps = 0;
    bool last = false;
    Instant computed{}, done{};
  };

  Status round() {
    Round round{.steps = std::min(round_steps_, steps_left())};
    round.last = round.steps == steps_left();
    round.computed = round.done = ring_.computed(now_, ensemble_->steps(), round.steps);
    const std::vector<std::size_t> parts = ensemble_->parts(round.last);
    for (const std::size_t bytes : parts)
      if (round.done != kNever) round.done = ring_.reduced(round.done, bytes);
    const auto& crash = ring_.first_crash();
    if (crash && crash->at <= std::min(round.done, end_.at))
      return stopped("p" + std::to_string(crash->machine) + " crashed", crash->at);
    over_ = round.done > end_.at;
    if (over_) return Done{};
    if (round.done == kNever)
      return stopped("p" + std::to_string(ring_.asleep()) + " was paused for good", now_);
    for (const std::size_t bytes : parts) bytes_sent_ += ring_.bytes_per_sum(ensemble_->all_parts(bytes));
    return train(round);
  }

  Status train(const Round& round) {
    for (std::uint64_t k = 0; k < round.steps; ++k) {
      const double factor = training::step_rate_factor(run_.rate().schedule, samples_,
                                                       static_cast<std::uint32_t>(step_samples()),
                                                       run_.epoch_samples(), ensemble_->steps() + 1);
      if (!ensemble_->step(factor)) {
        return Error{"the loss is not finite after " + std::to_string(ensemble_->steps()) +
                     " steps; a smaller training.learning_rate may help"};
      }
      samples_ += step_samples();
      learning_rate_ = run_.rate().base * factor;
      trace_ = hash64(std::as_bytes(ensemble_->losses()), trace_);
      run_.stepped(now_, samples_, end_.samples.value_or(0));
    }
    ensemble_->meet(round.last);
    ++rounds_;
    ring_.draw(now_, round.computed, round.done);
    now_ = round.done;
    trace_ = hash64(std::as_bytes(std::span(&now_, 1)), trace_);
    if (run_.evaluation_is_due(samples_)) over_ = evaluate();
    return Done{};
  }

  // True if the target is reached.
  bool evaluate() {
    const double seconds = to_seconds(now_.since_start);
    for (std::uint32_t i = 0; i < experiment_.peers; ++i) {
      training::MetricsLine line;
      line.seconds = seconds;
      line.peer = "p" + std::to_string(i);
      line.steps = ensemble_->steps();
      line.exchanges = rounds_;
      line.samples = ensemble_->steps() * experiment_.training.batch_size;
      line.bytes_sent = bytes_sent_ / experiment_.peers;
      line.loss = ensemble_->smoothed_loss(i);
      line.learning_rate = learning_rate_;
      run_.add_line(line);
    }
    VirtualRun::Evaluation evaluation;
    evaluation.replicas = ensemble_->replicas();
    evaluation.line.seconds = seconds;
    evaluation.line.steps = ensemble_->steps() * experiment_.peers;
    evaluation.line.samples = samples_;
    evaluation.line.exchanges = rounds_;
    evaluation.line.bytes_sent = bytes_sent_;
    evaluation.trained = now_ - begun_;
    return run_.evaluate(std::move(evaluation));
  }

  Result<training::Summary> finish() {
    if (auto written = folder_.write("timeline.jsonl", ring_.timelines()); !written) return written.error();
    training::Summary summary;
    summary.interrupted = interrupted_;
    summary.staleness.counts()[0] = rounds_;  // no step lands during a sum
    for (std::uint32_t i = 0; i < experiment_.peers; ++i) {
      training::PeerRecord record;
      record.name = "p" + std::to_string(i);
      record.precision = training::precision_on(training::of_peer(experiment_, i), "cpu");
      record.steps = ensemble_->steps();
      record.exchanges = rounds_;
      record.samples = ensemble_->steps() * experiment_.training.batch_size;
      record.slow = training::slowness(experiment_, i);
      record.state = "finished";
      summary.per_peer.push_back(record);
    }
    summary.exchanges.completed = rounds_;
    summary.bytes_sent = bytes_sent_;
    summary.samples = samples_;
    summary.start_seconds = to_seconds(begun_.since_start);
    summary.seconds = to_seconds(now_ - begun_);
    return run_.finish(std::move(summary), ensemble_->replicas(), {}, trace_);
  }

  Error stopped(const std::string& how, Instant at) const {
    return Error{how + " after " + format_number(to_seconds(at.since_start)) + " s, and " +
                 std::string(traits(experiment_.gossip.rule).name) + " cannot continue without it"};
  }
  std::uint64_t step_samples() const {
    return std::uint64_t{experiment_.peers} * experiment_.training.batch_size;
  }
  // UINT64_MAX if only time ends the run.
  std::uint64_t steps_left() const {
    if (!end_.samples) return UINT64_MAX;
    const std::uint64_t left = *end_.samples - std::min(samples_, *end_.samples);
    return (left + step_samples() - 1) / step_samples();
  }

  const Experiment& experiment_;
  const SimulateOptions& options_;
  const training::RunFolder& folder_;
  VirtualRun& run_;
  std::unique_ptr<Ensemble> ensemble_;
  Ring ring_;
  End end_;
  const std::uint64_t round_steps_;
  const Instant begun_;  // the first step
  Instant now_;
  std::uint64_t bytes_sent_;
  std::uint64_t samples_ = 0, rounds_ = 0, trace_ = 0;
  std::optional<double> learning_rate_{};
  bool over_ = false, interrupted_ = false;
};

}  // namespace

Result<training::Summary> simulate_all_reduce(const Experiment& experiment, const SimulateOptions& options,
                                              const training::RunFolder& folder) {
  auto run = VirtualRun::make(experiment, options, folder);
  if (!run) return run.error();
  const auto first = training::starting_parameters(experiment, (*run)->plan());
  if (!first) return first.error();
  FirstCopies copies;
  if (experiment.start == training::Begin::copy) {
    const auto copied = first_copies(**run);
    if (!copied) return copied.error();
    copies = *copied;
  }
  if (Status begun = (*run)->begin(); !begun) return begun.error();
  Ensemble::Workers workers;
  for (std::uint32_t i = 0; i < experiment.peers; ++i) {
    VirtualRun::Workers own = (*run)->workers(i);
    if (!own) return own.error();
    workers.push_back(std::move(own->front()));
  }
  std::unique_ptr<Ensemble> ensemble;
  if (traits(experiment.gossip.rule).meeting == Meeting::every_step) {
    ensemble = make_sharing_ensemble(std::move(workers), first->values, (*run)->pool());
  } else {
    const auto mix = training::mix_options(experiment);
    if (!mix) return mix.error();
    ensemble = make_outer_ensemble(std::move(workers), first->values, (*run)->plan().layout.trained_size(),
                                   *mix, (*run)->pool());
  }
  return AllReduceRun(options, folder, **run, copies, std::move(ensemble)).run();
}

}  // namespace starling::lab
