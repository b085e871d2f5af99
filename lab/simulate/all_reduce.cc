#include "lab/simulate/all_reduce.h"

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
#include "base/random.h"
#include "base/text.h"
#include "lab/simulate/incidents.h"
#include "lab/simulate/virtual_run.h"
#include "lab/world/world.h"
#include "models/arena.h"
#include "training/exchange/make.h"
#include "training/experiment/conditions.h"
#include "training/replica/recipe.h"
#include "training/records/timeline.h"

namespace starling::lab {
namespace {

using training::Experiment;

constexpr std::uint64_t kResending = 0xa11;             // the purpose of this file's chance
constexpr Duration kTriesLast = std::chrono::hours(1);  // of a frame that gets lost again and again

// What befalls the peers, and the ring between them.
class Swarm {
 public:
  Swarm(const Experiment& experiment, std::size_t floats)
      : experiment_(experiment),
        peers_(experiment.peers),
        random_(Random(experiment.seed).split(kResending)),
        bytes_(sizeof(float) * floats),
        chunk_bytes_(sizeof(float) * ((floats + experiment.peers - 1) / experiment.peers)) {
    const NetworkOptions usual;
    latency_ = experiment.latency.value_or(usual.latency);
    bandwidth_ = experiment.bandwidth.value_or(usual.bandwidth);
    port_ = experiment.port.value_or(bandwidth_);
    const std::size_t cell_floats = training::MixOptions{}.cell_floats;
    const std::size_t cells =
        training::chunk_cells(experiment, cell_floats).value_or(WorldOptions{}.chunk_cells);
    frame_bytes_ = sizeof(float) * cell_floats * cells;
    for (const Incident& incident : incidents_of(experiment)) {
      if (const auto* slow = std::get_if<Slow>(&incident)) peers_[slow->machine].slow.push_back(*slow);
      if (const auto* pause = std::get_if<Pause>(&incident))
        peers_[pause->machine].pauses.push_back({pause->from, pause->to});
      if (const auto* crash = std::get_if<Crash>(&incident)) {
        if (!crash_ || crash->at < crash_->at) crash_ = *crash;
      }
      if (std::holds_alternative<PoorLinks>(incident)) links_change_ = true;
    }
    for (Recurring& recurring : recurring_of(experiment)) {
      auto next = recurring();
      if (!next) continue;
      const std::uint32_t machine = std::get<Pause>(*next).machine;  // nothing else recurs with all-reduce
      peers_[machine].recurring.push_back({std::move(recurring), std::get<Pause>(*next)});
    }
    for (std::uint32_t i = 0; i < peers_.size(); ++i)
      peers_[i].step = to_seconds(virtual_step(training::of_peer(experiment, i)));
    for (Peer& peer : peers_) {
      peer.timeline = training::Timeline(training::Timeline::most_cells(peers_.size()));
      std::sort(peer.pauses.begin(), peer.pauses.end(),
                [](const Interval& a, const Interval& b) { return a.from < b.from; });
    }
  }

  // By all peers: in each round all chunks are under way.
  std::uint64_t bytes_per_step() const { return 2 * (peers_.size() - 1) * bytes_; }
  // The first crash.
  const std::optional<Crash>& crash() const { return crash_; }
  // Whoever made an instant below kNever.
  std::uint32_t asleep() const { return asleep_; }

  // When the last gradient of the step with this number is there that begins at `at`; kNever where somebody
  // is paused for ever.
  Instant computed(Instant at, std::uint64_t step) {
    Instant all = at;
    for (std::uint32_t i = 0; i < peers_.size() && all != kNever; ++i) {
      Instant end = awake(i, at);
      if (end != kNever) {
        const double seconds =
            peers_[i].step * slowness_of_step(peers_[i].slow, end, step);
        end = awake(i, end + std::max(Duration{1}, from_seconds(seconds)));
      }
      peers_[i].computed = end;
      all = std::max(all, end);
    }
    return all;
  }

  // When everyone has the mean of all gradients that is summed from `at` on; kNever as above.
  Instant reduced(Instant at) {
    for (std::size_t round = 0; round < 2 * (peers_.size() - 1) && at != kNever; ++round) {
      at = all_awake(at);
      if (at != kNever) at = all_awake(at + round_time(at.since_start));
    }
    return at;
  }

  // The latest step, which began at `begin`, goes into the time lines.
  void draw_step(Instant begin, Instant computed, Instant reduced) {
    for (Peer& peer : peers_) {
      draw(peer, begin, peer.computed, {.computing = 1});
      draw(peer, peer.computed, computed, {.waiting = 1});
      draw(peer, computed, reduced, {.exchanging = 1});
      peer.timeline.add_step(to_seconds(reduced.since_start));
      std::erase_if(peer.pauses, [&](const Interval& it) { return it.to <= reduced; });
    }
  }
  std::string timelines() const {
    std::string text;
    for (std::uint32_t i = 0; i < peers_.size(); ++i)
      text += training::to_json_lines("p" + std::to_string(i), peers_[i].timeline);
    return text;
  }

 private:
  struct Peer {
    double step = 0;  // seconds
    std::vector<Slow> slow;
    std::vector<Interval> pauses;
    std::vector<std::pair<Recurring, std::optional<Pause>>> recurring{};  // and the next pause of each
    Instant computed;  // its own gradient, in the latest step
    training::Timeline timeline;
  };

  // Draws the pauses that recur, up to an instant.
  static void draw_pauses(Peer& peer, Instant at) {
    for (auto& [draw, next] : peer.recurring) {
      while (next && next->from <= at) {
        peer.pauses.push_back({next->from, next->to});
        std::sort(peer.pauses.begin(), peer.pauses.end(),
                  [](const Interval& a, const Interval& b) { return a.from < b.from; });
        const auto drawn = draw();
        next = drawn ? std::optional(std::get<Pause>(*drawn)) : std::nullopt;
      }
    }
  }

  static void draw(Peer& peer, Instant from, Instant to, const training::Activity& doing) {
    const auto add = [&](Instant until, const training::Activity& activity) {
      peer.timeline.add(to_seconds(from.since_start), to_seconds(until.since_start), activity);
      from = until;
    };
    for (const Interval& pause : peer.pauses) {
      if (pause.to <= from || pause.from >= to) continue;
      if (pause.from > from) add(pause.from, doing);
      add(std::min(pause.to, to), {.stopped = 1});
    }
    if (from < to) add(to, doing);
  }

  Instant awake(std::uint32_t peer, Instant at) {
    draw_pauses(peers_[peer], at);
    const Instant end = awake_at(peers_[peer].pauses, at);
    if (end == kNever) asleep_ = peer;
    return end;
  }
  Instant all_awake(Instant at) {
    for (bool moved = true; moved && at != kNever;) {
      const Instant before = at;
      for (std::uint32_t i = 0; i < peers_.size() && at != kNever; ++i) at = awake(i, at);
      moved = at > before;
    }
    return at;
  }

  Duration round_time(Duration at) {
    if (!links_change_) return travel(latency_, bandwidth_);
    Duration longest{0};
    const auto n = static_cast<std::uint32_t>(peers_.size());
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

  const Experiment& experiment_;
  std::vector<Peer> peers_;
  Random random_;
  std::size_t bytes_, chunk_bytes_, frame_bytes_ = 0;
  Duration latency_{0};
  double bandwidth_ = 0, port_ = 0;
  bool links_change_ = false;
  std::optional<Crash> crash_;
  std::uint32_t asleep_ = 0;
};

// One replica that all peers' workers learn on together.
class Ensemble {
 public:
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

  // A step of all. False where a loss is not finite; then nothing has changed.
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
  static constexpr std::size_t kBlock = 4096;  // floats whose sums lie in the cache
  static constexpr std::size_t kParts = 64;    // of the mean, at most: a task each

  // Each float's mean is summed in the order of the peers, so threads change nothing.
  void average() {
    std::vector<std::span<const float>> gradients;
    for (auto& worker : workers_) gradients.push_back(worker->gradient());
    const std::size_t part = std::max(kBlock, (mean_.size() + kParts - 1) / kParts);
    std::vector<std::future<void>> averaging;
    for (std::size_t begin = 0; begin < mean_.size(); begin += part) {
      const std::size_t end = std::min(begin + part, mean_.size());
      averaging.push_back(pool_.submit([&, begin, end] { average(gradients, begin, end); }));
    }
    for (auto& part_done : averaging) part_done.get();
  }
  void average(std::span<const std::span<const float>> gradients, std::size_t begin, std::size_t end) {
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
  std::vector<float> mean_;
  std::vector<double> losses_, smoothed_;
  std::uint64_t steps_ = 0;
  ThreadPool& pool_;
};

// What the run ends at, besides the target.
struct End {
  explicit End(const Experiment& experiment, std::uint64_t epoch_samples) {
    if (experiment.epochs)
      samples =
          static_cast<std::uint64_t>(std::ceil(*experiment.epochs * static_cast<double>(epoch_samples)));
    if (experiment.steps) {
      const std::uint64_t all = *experiment.steps * experiment.peers * experiment.batch_size;
      samples = std::min(samples.value_or(all), all);
    }
    if (experiment.seconds) at = Instant{*experiment.seconds};
  }
  std::optional<std::uint64_t> samples;
  Instant at = kNever;
};

Error stopped(const std::string& how, Instant at) {
  return Error{how + " after " + format_number(to_seconds(at.since_start)) +
               " s, and all-reduce cannot go on without it"};
}

}  // namespace

Result<training::Summary> simulate_all_reduce(const Experiment& experiment, const SimulateOptions& options,
                                              const training::RunFolder& folder) {
  auto made = VirtualRun::make(experiment, options, folder);
  if (!made) return made.error();
  VirtualRun& run = **made;
  const auto first = training::starting_parameters(experiment, run.plan());
  if (!first) return first.error();
  if (Status begun = run.begin(); !begun) return begun.error();
  std::vector<std::unique_ptr<training::Worker>> workers;
  for (std::uint32_t i = 0; i < experiment.peers; ++i) {
    VirtualRun::Workers own = run.workers(i);
    if (!own) return own.error();
    workers.push_back(std::move(own->front()));
  }
  Ensemble ensemble(std::move(workers), run.plan(), *first, run.pool());
  Swarm swarm(experiment, run.plan().layout.arena_size());
  const End end(experiment, run.epoch_samples());
  const std::uint64_t step_samples = std::uint64_t{experiment.peers} * experiment.batch_size;

  Instant now;
  std::uint64_t samples = 0, trace = 0;
  std::optional<double> learning_rate;
  const auto look_around = [&] {
    for (std::uint32_t i = 0; i < experiment.peers; ++i) {
      training::MetricsLine line;
      line.seconds = to_seconds(now.since_start);
      line.peer = "p" + std::to_string(i);
      line.steps = line.exchanges = ensemble.steps();
      line.samples = ensemble.steps() * experiment.batch_size;
      line.bytes_sent = ensemble.steps() * swarm.bytes_per_step() / experiment.peers;
      line.loss = ensemble.smoothed_loss(i);
      line.learning_rate = learning_rate;
      run.tell(line);
    }
    VirtualRun::Look look;
    look.replicas.push_back(ensemble.replica());
    look.line.seconds = to_seconds(now.since_start);
    look.line.steps = ensemble.steps() * experiment.peers;
    look.line.samples = samples;
    look.line.exchanges = ensemble.steps();
    look.line.bytes_sent = ensemble.steps() * swarm.bytes_per_step();
    look.trained = now.since_start;
    return run.look(std::move(look));
  };

  while (!end.samples || samples < *end.samples) {
    if (options.interrupted && options.interrupted()) break;
    const Instant computed = swarm.computed(now, ensemble.steps());
    const Instant done = computed == kNever ? kNever : swarm.reduced(computed);
    const auto& crash = swarm.crash();
    if (crash && crash->at <= std::min(done, end.at))
      return stopped("p" + std::to_string(crash->machine) + " crashed", crash->at);
    if (done > end.at) break;
    if (done == kNever) return stopped("p" + std::to_string(swarm.asleep()) + " was paused for good", now);

    const double factor = training::step_rate_factor(
        run.rate().schedule, samples, static_cast<std::uint32_t>(step_samples), run.epoch_samples());
    if (!ensemble.step(factor)) {
      return Error{"the loss is not finite after " + std::to_string(ensemble.steps()) +
                   " steps; a smaller training.learning_rate may help"};
    }
    swarm.draw_step(now, computed, done);
    now = done;
    samples += step_samples;
    learning_rate = run.rate().base * factor;
    trace = hash64(std::as_bytes(std::span(&now, 1)), trace);
    trace = hash64(std::as_bytes(ensemble.losses()), trace);
    run.stepped(now, samples, end.samples.value_or(0));
    if (run.look_is_due(samples) && look_around()) break;
  }

  if (auto written = folder.write("timeline.jsonl", swarm.timelines()); !written) return written.error();
  training::Summary summary;
  summary.staleness.counts()[0] = ensemble.steps();  // nobody steps while the sum is made
  for (std::uint32_t i = 0; i < experiment.peers; ++i) {
    training::PeerRecord record;
    record.name = "p" + std::to_string(i);
    record.steps = record.exchanges = ensemble.steps();
    record.samples = ensemble.steps() * experiment.batch_size;
    record.slow = training::slowness(experiment, i);
    record.state = "finished";
    summary.per_peer.push_back(record);
  }
  summary.exchanges.completed = ensemble.steps();
  summary.bytes_sent = ensemble.steps() * swarm.bytes_per_step();
  summary.samples = samples;
  summary.seconds = to_seconds(now.since_start);
  return run.finish(std::move(summary), {ensemble.replica()}, {}, trace);
}

}  // namespace starling::lab
