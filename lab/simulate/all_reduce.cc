// The baseline in virtual time: bulk-synchronous data-parallel training. In every step each peer computes the
// gradient of its own batch on the same parameters, a ring all-reduce gives every peer the mean of all
// gradients (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC
// 2009), and all take the same optimizer step. For n peers and P floats, a step lasts
//   max over peers of (pace x slowness of that step)  +  2 (n - 1) rounds,
//   a round: max over the ring's links i -> i+1 of (4 ceil(P / n) bytes / bandwidth + latency),
// where the bandwidth is at most that of a machine's network card (network.port), and lost frames arrive
// later (base/loss.h). A paused peer stops all, at the beginning and the end of a step and of each round.
//
// Batches, partition, random slowness, learning rates, evaluations and results are those of the other rules.
// Running statistics change by the mean over the peers' batches. All replicas are equal bit by bit, so one is
// kept.
#include <algorithm>
#include <array>
#include <cmath>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/loss.h"
#include "base/text.h"
#include "lab/simulate/incidents.h"
#include "lab/simulate/run_watch.h"
#include "lab/simulate/virtual_run.h"
#include "lab/world/mishaps.h"
#include "training/experiment/experiment.h"
#include "training/experiment/settings.h"
#include "training/replica/recipe.h"

namespace starling::lab {
namespace {

using training::Experiment;

// One replica that the workers of all peers train together: every step averages their gradients and applies
// the mean.
class Ensemble {
 public:
  // `plan` and `pool` outlive the ensemble.
  Ensemble(std::vector<std::unique_ptr<training::Worker>> workers, const models::Plan& plan,
           std::span<const float> first, ThreadPool& pool)
      : workers_(std::move(workers)),
        arena_(plan.layout.arena_size()),
        mean_(plan.layout.arena_size()),
        losses_(workers_.size()),
        smoothed_(workers_.size()),
        pool_(pool) {
    arena_.write(0, first);
  }

  // A step of all workers. False, without any change, if a loss is not finite.
  bool step(double rate_factor) {
    std::vector<std::future<double>> computing;
    for (auto& worker : workers_)
      computing.push_back(pool_.submit([&] { return worker->compute(arena_.data()); }));
    bool finite = true;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      losses_[i] = computing[i].get();
      finite = finite && std::isfinite(losses_[i]);
    }
    if (!finite) return false;
    for (std::size_t i = 0; i < workers_.size(); ++i)
      smoothed_[i] = steps_ == 0 ? losses_[i] : 0.95 * smoothed_[i] + 0.05 * losses_[i];
    ++steps_;
    average();
    workers_.front()->replace_gradient(mean_);
    workers_.front()->apply(arena_, rate_factor);
    return true;
  }

  std::span<const double> losses() const { return losses_; }
  double smoothed_loss(std::size_t peer) const { return smoothed_[peer]; }
  std::uint64_t steps() const { return steps_; }
  std::span<const float> replica() const { return {arena_.data(), arena_.size()}; }  // between two steps

 private:
  static constexpr std::size_t kBlock = 4096;  // floats whose sums fit the cache
  static constexpr std::size_t kParts = 64;    // tasks that compute the mean, at most
  using Gradients = std::vector<std::span<const float>>;
  // Each float's mean is summed in the order of the peers, so the number of threads changes nothing.
  void average() {
    Gradients gradients;
    for (auto& worker : workers_) gradients.push_back(worker->gradient());
    const std::size_t part = std::max(kBlock, (mean_.size() + kParts - 1) / kParts);
    std::vector<std::future<void>> averaging;
    for (std::size_t begin = 0; begin < mean_.size(); begin += part) {
      const std::size_t end = std::min(begin + part, mean_.size());
      averaging.push_back(pool_.submit([&, begin, end] { average(gradients, begin, end); }));
    }
    for (auto& part_done : averaging) part_done.get();
  }

  void average(const Gradients& gradients, std::size_t begin, std::size_t end) {
    std::array<double, kBlock> sums;
    for (std::size_t at = begin; at < end; at += kBlock) {
      const std::size_t count = std::min(kBlock, end - at);
      std::fill_n(sums.begin(), count, 0.0);
      for (const auto& gradient : gradients) {
        for (std::size_t k = 0; k < count; ++k) sums[k] += static_cast<double>(gradient[at + k]);
      }
      for (std::size_t k = 0; k < count; ++k)
        mean_[at + k] = static_cast<float>(sums[k] / static_cast<double>(gradients.size()));
    }
  }

  std::vector<std::unique_ptr<training::Worker>> workers_;
  models::Arena arena_;
  std::vector<float> mean_;  // of the gradients
  std::vector<double> losses_, smoothed_;
  std::uint64_t steps_ = 0;
  ThreadPool& pool_;
};

// ---- the ring ----

constexpr std::uint64_t kResending = 0xa11;             // the purpose of the random numbers
constexpr Duration kTriesLast = std::chrono::hours(1);  // of a frame that is lost repeatedly

std::size_t frame_bytes_of(const training::Experiment& experiment) {
  const std::size_t cell_floats = training::MixOptions{}.cell_floats;
  const std::size_t cells =
      training::chunk_cells(experiment, cell_floats).value_or(WorldOptions{}.chunk_cells);
  return sizeof(float) * cell_floats * cells;
}

// The virtual machines and the ring of links between them: how long a step and an all-reduce take under the
// experiment's faults, and what each machine does meanwhile.
class Ring {
 public:
  // `floats`: the size of the gradient. The experiment outlives the ring.
  Ring(const training::Experiment& experiment, std::size_t floats)
      : experiment_(experiment),
        machines_(experiment.peers),
        random_(Random(experiment.seed).split(kResending)),
        bytes_(sizeof(float) * floats),
        chunk_bytes_(sizeof(float) * ((floats + experiment.peers - 1) / experiment.peers)),
        frame_bytes_(frame_bytes_of(experiment)),
        latency_(experiment.network.latency.value_or(NetworkOptions{}.latency)),
        bandwidth_(experiment.network.bandwidth.value_or(NetworkOptions{}.bandwidth)),
        port_(experiment.network.port.value_or(bandwidth_)) {
    for (std::uint32_t i = 0; i < machines_.size(); ++i) {
      machines_[i].step = to_seconds(virtual_step(training::of_peer(experiment, i)));
      machines_[i].timeline = training::Timeline(training::Timeline::most_cells(machines_.size()));
    }
    add_incidents();
  }

  // Sent by all machines: in each round all chunks move.
  std::uint64_t bytes_per_step() const { return 2 * (machines_.size() - 1) * bytes_; }
  const std::optional<Crash>& first_crash() const { return crash_; }
  // A machine that is paused forever, after an instant below was kNever.
  std::uint32_t asleep() const { return asleep_; }

  // When the last machine has computed the gradient of this step, which begins at `at`; kNever if one is
  // paused forever.
  Instant computed(Instant at, std::uint64_t step) {
    Instant all = at;
    for (std::uint32_t i = 0; i < machines_.size() && all != kNever; ++i) {
      Instant end = awake(i, at);
      if (end != kNever) {
        const double seconds = machines_[i].step * machines_[i].mishaps.slowness_of_step(end, step);
        end = awake(i, end + std::max(Duration{1}, from_seconds(seconds)));
      }
      machines_[i].computed = end;
      all = std::max(all, end);
    }
    return all;
  }

  // When every machine has the mean of the gradients whose sum begins at `at`; kNever as above.
  Instant reduced(Instant at) {
    for (std::size_t round = 0; round < 2 * (machines_.size() - 1) && at != kNever; ++round) {
      at = all_awake(at);
      if (at != kNever) at = all_awake(at + round_time(at.since_start));
    }
    return at;
  }
  // Draws the latest step into the time lines.
  void draw_step(Instant begin, Instant computed, Instant reduced) {
    for (Machine& machine : machines_) {
      std::vector<Interval>& pauses = machine.mishaps.pauses;
      const auto draw = [&](Instant from, Instant to, const training::Activity& doing) {
        add_around_pauses(machine.timeline, pauses, from, to, doing);
      };
      draw(begin, machine.computed, {.computing = 1});
      draw(machine.computed, computed, {.waiting = 1});
      draw(computed, reduced, {.exchanging = 1});
      machine.timeline.add_step(to_seconds(reduced.since_start));
      std::erase_if(pauses, [&](const Interval& it) { return it.to <= reduced; });
    }
  }

  // The lines of timeline.jsonl.
  std::string timelines() const {
    std::string text;
    for (std::uint32_t i = 0; i < machines_.size(); ++i)
      text += training::to_json_lines("p" + std::to_string(i), machines_[i].timeline);
    return text;
  }

 private:
  // Recurring pauses, and the next of them.
  using Recurrence = std::pair<Recurring, std::optional<Pause>>;
  struct Machine {
    double step = 0;  // seconds, without faults
    Mishaps mishaps{};
    std::vector<Recurrence> recurring{};
    Instant computed{};  // its gradient of the latest step
    training::Timeline timeline{};
  };

  void add_incidents() {
    for (const Incident& incident : incidents_of(experiment_)) {
      if (const auto* slow = std::get_if<Slow>(&incident))
        machines_[slow->machine].mishaps.slow.push_back(*slow);
      if (const auto* pause = std::get_if<Pause>(&incident))
        machines_[pause->machine].mishaps.add_pause({pause->from, pause->to}, Instant{});
      if (const auto* crash = std::get_if<Crash>(&incident)) {
        if (!crash_ || crash->at < crash_->at) crash_ = *crash;
      }
      if (std::holds_alternative<PoorLinks>(incident)) links_change_ = true;
    }
    for (Recurring& recurring : recurring_of(experiment_)) {
      auto next = recurring();
      if (!next) continue;
      const Pause pause = std::get<Pause>(*next);  // with all-reduce, only pauses recur
      machines_[pause.machine].recurring.emplace_back(std::move(recurring), pause);
    }
  }

  static void draw_pauses_until(Machine& machine, Instant at) {
    for (auto& [draw_next, next] : machine.recurring) {
      while (next && next->from <= at) {
        machine.mishaps.add_pause({next->from, next->to}, Instant{});
        const auto drawn = draw_next();
        next = drawn ? std::optional(std::get<Pause>(*drawn)) : std::nullopt;
      }
    }
  }
  Instant awake(std::uint32_t machine, Instant at) {
    draw_pauses_until(machines_[machine], at);
    const Instant end = machines_[machine].mishaps.awake(at);
    if (end == kNever) asleep_ = machine;
    return end;
  }
  Instant all_awake(Instant at) {
    for (bool moved = true; moved && at != kNever;) {
      const Instant before = at;
      for (std::uint32_t i = 0; i < machines_.size() && at != kNever; ++i) at = awake(i, at);
      moved = at > before;
    }
    return at;
  }
  Duration round_time(Duration at) {
    if (!links_change_) return travel(latency_, bandwidth_);
    Duration longest{0};
    const auto n = static_cast<std::uint32_t>(machines_.size());
    for (std::uint32_t i = 0; i < n; ++i) {
      const training::LinkShape link = training::link_at(experiment_, i, (i + 1) % n, at);
      const Duration latency = link.latency.value_or(latency_);
      Duration late{0};
      for (std::size_t sent = 0; sent < chunk_bytes_; sent += frame_bytes_)
        late = std::max(late, resent_after(link.drop, latency, kTriesLast, random_));
      longest = std::max(longest, late + travel(latency, link.bandwidth.value_or(bandwidth_)));
    }
    return longest;
  }

  Duration travel(Duration latency, double bandwidth) const {
    return from_seconds(static_cast<double>(chunk_bytes_) * 8 / std::min(bandwidth, port_)) + latency;
  }

  const training::Experiment& experiment_;
  std::vector<Machine> machines_;
  Random random_;
  std::size_t bytes_, chunk_bytes_, frame_bytes_;
  Duration latency_;
  double bandwidth_, port_;
  bool links_change_ = false;
  std::optional<Crash> crash_{};
  std::uint32_t asleep_ = 0;
};

// ---- the run ----

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
      interrupted_ = options_.interrupted && options_.interrupted();
      if (interrupted_) break;
      if (Status stepped = step(); !stepped) return stepped.error();
    }
    return finish();
  }

 private:
  Status step() {
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

  Status train(Instant computed, Instant done) {
    const double factor =
        training::step_rate_factor(run_.rate().schedule, samples_, static_cast<std::uint32_t>(step_samples()),
                                   run_.epoch_samples(), ensemble_.steps() + 1);
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
  bool evaluate() {
    const double seconds = to_seconds(now_.since_start);
    for (std::uint32_t i = 0; i < experiment_.peers; ++i) {
      training::MetricsLine line;
      line.seconds = seconds;
      line.peer = "p" + std::to_string(i);
      line.steps = line.exchanges = ensemble_.steps();
      line.samples = ensemble_.steps() * experiment_.training.batch_size;
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

  Result<training::Summary> finish() {
    if (auto written = folder_.write("timeline.jsonl", ring_.timelines()); !written) return written.error();
    training::Summary summary;
    summary.interrupted = interrupted_;
    summary.staleness.counts()[0] = ensemble_.steps();  // no step lands during a sum
    for (std::uint32_t i = 0; i < experiment_.peers; ++i) {
      training::PeerRecord record;
      record.name = "p" + std::to_string(i);
      record.precision = training::precision_on(training::of_peer(experiment_, i), "cpu");
      record.steps = record.exchanges = ensemble_.steps();
      record.samples = ensemble_.steps() * experiment_.training.batch_size;
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

  static Error stopped(const std::string& how, Instant at) {
    return Error{how + " after " + format_number(to_seconds(at.since_start)) +
                 " s, and all-reduce cannot continue without it"};
  }
  std::uint64_t step_samples() const {
    return std::uint64_t{experiment_.peers} * experiment_.training.batch_size;
  }
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
  bool over_ = false, interrupted_ = false;
};

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
