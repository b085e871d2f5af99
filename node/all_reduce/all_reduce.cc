#include "node/all_reduce/all_reduce.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "node/all_reduce/collective.h"
#include "node/all_reduce/outer_averaging.h"
#include "node/launch/process.h"
#include "node/work/background.h"
#include "node/work/processors.h"
#include "node/work/replica.h"
#include "node/work/slowdown.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/control.h"
#include "training/runs/experiment/schedule.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::node {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Duration kLeaveLimit = std::chrono::seconds(3);  // from a signal to the process's end
constexpr int kFailed = 1, kBadInput = 2;

// What the peers sum at the end of every round: with all-reduce the gradient, then a word for each thing that
// all must learn, then for each rank the instant at which it was ready to sum.
class Contribution {
 public:
  enum Word : std::size_t { asked_to_end, lost, words };

  static std::size_t floats(std::size_t parameters, std::uint32_t peers) {
    return parameters + words + 2 * std::size_t{peers};
  }

  Contribution(std::size_t parameters, std::uint32_t peers)
      : parameters_(parameters), values_(floats(parameters, peers)) {}

  std::span<float> all() { return values_; }
  std::span<float> gradient() { return all().first(parameters_); }

  void set(Word word, bool on) { values_[parameters_ + word] = on ? 1 : 0; }
  // After the sum: whether any peer has set it.
  bool is_set(Word word) const { return values_[parameters_ + word] > 0; }

  // An instant is two floats, exact to the microsecond for half a year of uptime. The other ranks' floats are
  // zero, so after the sum all ranks have all instants. The processes share a clock, as they share a machine.
  void set_ready(std::uint32_t rank, Clock::time_point at) {
    const auto instants = all().subspan(parameters_ + words);
    std::fill(instants.begin(), instants.end(), 0.0F);
    const auto microseconds = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count());
    instants[2 * std::size_t{rank}] = static_cast<float>(microseconds / kHalf % kHalf);
    instants[2 * std::size_t{rank} + 1] = static_cast<float>(microseconds % kHalf);
  }
  // After the sum: when the last rank was ready.
  Clock::time_point all_ready() const {
    std::uint64_t latest = 0;
    for (std::size_t i = parameters_ + words; i + 1 < values_.size(); i += 2) {
      latest = std::max(latest, static_cast<std::uint64_t>(values_[i]) * kHalf +
                                    static_cast<std::uint64_t>(values_[i + 1]));
    }
    return Clock::time_point(std::chrono::microseconds(latest));
  }

 private:
  static constexpr std::uint64_t kHalf = 1 << 22;

  const std::size_t parameters_;
  std::vector<float> values_;
};

// How a peer divides its time, for the launcher's time lines: computing, waiting for the last peer to be
// ready, and exchanging. Used by one thread at a time.
class PhaseClock {
 public:
  enum class Phase : std::uint8_t { none, computing, summing };
  struct Sums {
    Clock::duration computing{0}, exchanging{0}, waiting{0};
  };

  void enter(Phase phase) {
    const auto now = Clock::now();
    if (phase_ == Phase::computing) sums_.computing += now - since_;
    phase_ = phase;
    since_ = now;
  }
  // Ends the sum that began at `began`; the time until the last peer was ready counts as waiting.
  void end_sum(Clock::time_point began, Clock::time_point all_ready) {
    const auto now = Clock::now();
    const auto met = std::clamp(all_ready, began, now);
    sums_.waiting += met - began;
    sums_.exchanging += now - met;
    phase_ = Phase::none;
  }
  // Includes the current phase; an unfinished sum counts as waiting.
  Sums sums() const {
    Sums sums = sums_;
    if (phase_ != Phase::none)
      (phase_ == Phase::computing ? sums.computing : sums.waiting) += Clock::now() - since_;
    return sums;
  }

 private:
  Phase phase_ = Phase::none;
  Clock::time_point since_;
  Sums sums_;
};

class AllReducePeer {
 public:
  explicit AllReducePeer(const AllReduceOptions& options)
      : options_(options),
        experiment_(options.experiment),
        process_(io_, options.process, disk_),
        slowdowns_(slowdowns_of(experiment_, options_.number, experiment_.seed)),
        disk_(io_.get_executor()) {}

  PeerOutcome run();

 private:
  using Phase = PhaseClock::Phase;

  // ---- the main thread ----
  void tick();
  void ask_for_end();
  void leave();
  void quit(PeerOutcome outcome);
  training::PeerReport make_report(training::PeerReport::Kind kind) const;

  // ---- the trainer's thread ----
  PeerOutcome train();
  PeerOutcome prepare_and_train();
  Status begin_rounds();
  std::optional<PeerOutcome> round(Collective& collective, Contribution& contribution);
  std::optional<PeerOutcome> step(Collective& collective, Contribution& contribution);
  bool step_alone();
  std::optional<PeerOutcome> sum(Collective& collective, Contribution& contribution);
  void end_sum(Clock::time_point ready, const Contribution& contribution);
  PeerOutcome gone(const Error& error) const;
  std::uint64_t steps_left() const;
  void apply_sum(std::span<float> gradient_sum);
  void apply();
  PeerOutcome end_training(Collective& collective);
  void wait_out(Clock::time_point step_start, std::uint64_t step);
  void count(double loss);
  void enter(Phase phase);
  bool wants_end() const;
  bool is_over() const;
  void leave_snapshot_if_due();
  PeerOutcome failed(const std::string& why) const;

  double seconds_trained() const {
    if (!training_start_) return 0;
    return std::chrono::duration<double>(training_end_.value_or(Clock::now()) - *training_start_).count();
  }
  // If the others have made as many steps.
  std::uint64_t swarm_samples() const {
    return made_.steps * experiment_.peers * experiment_.training.batch_size;
  }

  const AllReduceOptions& options_;
  const training::Experiment& experiment_;
  asio::io_context io_{1};
  Process process_;
  bool over_ = false;
  std::optional<Clock::time_point> leaving_since_;
  PeerOutcome outcome_;

  std::unique_ptr<Replica> replica_;     // the trainer's thread
  std::optional<OuterAveraging> outer_;  // the trainer's thread; without it, a round is a common step
  std::uint64_t round_steps_ = 1;        // the trainer's thread
  training::RateSchedule schedule_;
  const std::vector<Slowdown> slowdowns_;

  mutable std::mutex mutex_;  // for what both threads use
  std::condition_variable wake_;
  bool end_asked_ = false;
  std::string state_ = "joining", device_ = "cpu";
  struct Counts {
    std::uint64_t steps = 0, rounds = 0, bytes_sent = 0;
  } made_;
  std::optional<double> loss_, learning_rate_;
  std::optional<Clock::time_point> training_start_, training_end_;
  PhaseClock phases_;
  std::string final_path_;

  Background disk_;  // last: its thread uses the members above
};

// ---- the main thread ----

// The run ends after the current round. Before the first step it ends at once, because a peer may be missing.
void AllReducePeer::ask_for_end() {
  bool began = false;
  {
    const std::lock_guard lock(mutex_);
    end_asked_ = true;
    began = training_start_.has_value();
  }
  wake_.notify_all();
  if (!began)
    quit(failed("asked to end before all " + std::to_string(experiment_.peers) + " peers had joined"));
}

void AllReducePeer::leave() {
  if (leaving_since_ || over_) return;
  leaving_since_ = Clock::now();
  spdlog::info("ending the run, with all its peers");
  ask_for_end();
}

void AllReducePeer::quit(PeerOutcome outcome) {
  if (over_) return;
  over_ = true;
  outcome_ = std::move(outcome);
  io_.stop();
}

training::PeerReport AllReducePeer::make_report(training::PeerReport::Kind kind) const {
  const std::lock_guard lock(mutex_);
  training::PeerReport report;
  report.kind = kind;
  report.state = state_;
  report.device = device_;
  if (replica_) report.precision = replica_->precision;
  report.steps = made_.steps;
  report.samples = made_.steps * experiment_.training.batch_size;
  report.swarm_samples = swarm_samples();
  report.members = experiment_.peers;
  report.loss = loss_;
  report.learning_rate = learning_rate_;
  report.seconds = seconds_trained();
  if (report.seconds > 0) report.samples_per_second = static_cast<double>(report.samples) / report.seconds;
  // Each round counts once in the run: at the first peer.
  (options_.number == 0 ? report.exchanges.completed : report.answered) = made_.rounds;
  if (options_.number == 0)
    report.staleness.counts()[0] = made_.rounds;  // no peer makes a step during the sum
  const PhaseClock::Sums sums = phases_.sums();
  report.computing_seconds = to_seconds(sums.computing);
  report.exchanging_seconds = to_seconds(sums.exchanging);
  report.waiting_seconds = to_seconds(sums.waiting);
  report.bytes_sent = made_.bytes_sent;
  return report;
}

void AllReducePeer::tick() {
  const training::PeerReport report = make_report(training::PeerReport::Kind::status);
  process_.report(report);
  if (report.steps > 0 && process_.is_time_to_log()) {
    spdlog::info("{}: {} steps, {:.0f} samples/s, {}", report.state, report.steps,
                 report.samples_per_second.value_or(0), loss_text(report.loss));
  }
  if (leaving_since_ && Clock::now() - *leaving_since_ > kLeaveLimit)
    quit(failed("left during a round that another peer has not finished"));
}

PeerOutcome AllReducePeer::run() {
  process_.catch_signals();
  process_.connect_launcher(make_report(training::PeerReport::Kind::listening));
  process_.start({.leave = [this] { leave(); },
                  .command =
                      [this](const std::string& command) {
                        if (command == training::kEndCommand) ask_for_end();
                      },
                  .tick = [this] { tick(); }});
  std::thread trainer([this] {
    PeerOutcome outcome = train();
    asio::post(io_, [this, outcome = std::move(outcome)] { quit(outcome); });
  });
  io_.run();
  auto report = make_report(training::PeerReport::Kind::finished);
  report.path = final_path_;
  process_.report_last(report);
  if (report.state == "finished" || report.state == "failed") {
    trainer.join();
    return outcome_;
  }
  // The trainer waits for other peers; this wait cannot be interrupted.
  if (!outcome_.error.empty()) std::fprintf(stderr, "starling peer: %s\n", outcome_.error.c_str());
  std::_Exit(outcome_.exit_code);
}

// ---- the trainer's thread ----

PeerOutcome AllReducePeer::failed(const std::string& why) const { return {kFailed, why}; }

PeerOutcome AllReducePeer::train() {
  PeerOutcome outcome;
  try {
    outcome = prepare_and_train();
  } catch (const kernels::DeviceError& error) {
    outcome = failed(error.what());
  }
  const std::lock_guard lock(mutex_);
  state_ = outcome.exit_code == 0 ? "finished" : "failed";
  return outcome;
}

PeerOutcome AllReducePeer::prepare_and_train() {
  auto replica = make_replica(experiment_, training::load_data(experiment_, options_.data_root),
                              std::pair(options_.number, experiment_.peers), options_.number);
  if (!replica) return {kBadInput, replica.error().message};
  const auto schedule =
      training::make_schedule(experiment_, (*replica)->data.train.size(), (*replica)->data.train.context);
  if (!schedule) return {kBadInput, schedule.error().message};
  schedule_ = *schedule;
  {
    const std::lock_guard lock(mutex_);
    replica_ = std::move(*replica);
    device_ = replica_->devices();
  }
  const Status begun = training::write_starting_parameters(experiment_, replica_->plan, replica_->arena);
  if (!begun) return {kBadInput, begun.error().message};
  const auto collective =
      join_collective({options_.number, experiment_.peers, options_.rendezvous, options_.patience});
  if (!collective) return failed("the peers did not join: " + collective.error().message);

  if (const Status lowered = lower_priority(); !lowered) spdlog::debug("{}", lowered.error().message);
  spdlog::info("training begins: {} parameters, {} peers, batches of {}, on {}",
               replica_->plan.layout.parameter_count(), experiment_.peers, experiment_.training.batch_size,
               replica_->devices());
  {
    const std::lock_guard lock(mutex_);
    training_start_ = Clock::now();
    state_ = "training";
  }
  if (const Status ready = begin_rounds(); !ready) return {kBadInput, ready.error().message};
  Contribution contribution(outer_ ? 0 : replica_->arena.size(), experiment_.peers);
  do {
    if (auto failure = outer_ ? round(**collective, contribution) : step(**collective, contribution))
      return *failure;
    leave_snapshot_if_due();
  } while (!contribution.is_set(Contribution::asked_to_end) && !is_over());
  return end_training(**collective);
}

// A paced or slowed step waits here until its end, or until the run is asked to end.
void AllReducePeer::wait_out(Clock::time_point step_start, std::uint64_t step) {
  const Nanoseconds took = std::max<Clock::duration>(Clock::now() - step_start, experiment_.training.pace);
  const Nanoseconds due = slowed(took, slowdowns_, step_start - *training_start_, step);
  const auto until = step_start + std::chrono::duration_cast<Clock::duration>(due);
  std::unique_lock lock(mutex_);
  wake_.wait_until(lock, until, [this] { return end_asked_; });
}

void AllReducePeer::count(double loss) {
  const std::lock_guard lock(mutex_);
  loss_ = made_.steps == 0 ? loss : 0.95 * *loss_ + 0.05 * loss;
  ++made_.steps;
}

void AllReducePeer::enter(Phase phase) {
  const std::lock_guard lock(mutex_);
  phases_.enter(phase);
}

bool AllReducePeer::wants_end() const {
  const std::lock_guard lock(mutex_);
  return end_asked_ ||
         (experiment_.end.seconds && Clock::now() - *training_start_ >= *experiment_.end.seconds);
}

// Has the same result in all peers, unless one was asked to end.
bool AllReducePeer::is_over() const { return steps_left() == 0; }

// Until the run's end; UINT64_MAX if only time ends it.
std::uint64_t AllReducePeer::steps_left() const {
  std::uint64_t goal = experiment_.end.steps.value_or(UINT64_MAX);
  if (experiment_.end.epochs) {
    const double samples =
        std::ceil(*experiment_.end.epochs * static_cast<double>(replica_->data.train.size()));
    const double each = static_cast<double>(experiment_.peers) * experiment_.training.batch_size;
    goal = std::min(goal, static_cast<std::uint64_t>(std::ceil(samples / each)));
  }
  return goal == UINT64_MAX ? goal : goal - std::min(goal, made_.steps);
}

Status AllReducePeer::begin_rounds() {
  const RuleTraits& rule = traits(experiment_.gossip.rule);
  if (rule.meeting == Meeting::every_step) return Done{};
  const auto mix = training::mix_options(experiment_);
  if (!mix) return mix.error();
  round_steps_ = pace_of_fragment(rule, training::resolved_every(experiment_), mix->fragments).steps;
  outer_.emplace(replica_->arena, replica_->plan.layout.trained_size(), options_.number, experiment_.peers,
                 *mix);
  return Done{};
}

// Returns an outcome if the step failed.
std::optional<PeerOutcome> AllReducePeer::step(Collective& collective, Contribution& contribution) {
  training::Worker& worker = *replica_->workers.front();
  const auto start = Clock::now();
  enter(Phase::computing);
  worker.feed(replica_->arena);
  const double loss = worker.loss();
  const auto gradient = worker.gradient();
  std::copy(gradient.begin(), gradient.end(), contribution.gradient().begin());
  wait_out(start, made_.steps);
  contribution.set(Contribution::lost, !std::isfinite(loss));
  enter(Phase::summing);
  const auto ready = Clock::now();
  if (auto failure = sum(collective, contribution)) return failure;
  end_sum(ready, contribution);
  apply_sum(contribution.gradient());
  count(loss);
  return std::nullopt;
}

// A round of steps alone and the outer step. Returns an outcome if it failed.
std::optional<PeerOutcome> AllReducePeer::round(Collective& collective, Contribution& contribution) {
  enter(Phase::computing);
  bool finite = true;
  const std::uint64_t steps = std::min(round_steps_, steps_left());
  for (std::uint64_t k = 0; k < steps && finite && !wants_end(); ++k) finite = step_alone();
  contribution.set(Contribution::lost, !finite);
  enter(Phase::summing);
  const auto ready = Clock::now();
  if (auto failure = sum(collective, contribution)) return failure;
  const bool last = contribution.is_set(Contribution::asked_to_end) || is_over();
  const auto sent = outer_->meet(collective, last);
  if (!sent) return gone(sent.error());
  {
    const std::lock_guard lock(mutex_);
    made_.bytes_sent += *sent;
  }
  end_sum(ready, contribution);
  return std::nullopt;
}

// Returns whether the loss is finite; else nothing changes.
bool AllReducePeer::step_alone() {
  training::Worker& worker = *replica_->workers.front();
  const auto start = Clock::now();
  worker.feed(replica_->arena);
  const double loss = worker.loss();
  if (!std::isfinite(loss)) return false;
  wait_out(start, made_.steps);
  apply();
  count(loss);
  return true;
}

// Sums the contributions of all peers.
std::optional<PeerOutcome> AllReducePeer::sum(Collective& collective, Contribution& contribution) {
  contribution.set(Contribution::asked_to_end, wants_end());
  contribution.set_ready(options_.number, Clock::now());
  if (const Status summed = collective.sum(contribution.all()); !summed) return gone(summed.error());
  if (contribution.is_set(Contribution::lost)) {
    return failed("the loss is not finite after " + std::to_string(made_.steps) +
                  " steps; a smaller training.learning_rate may help");
  }
  const std::lock_guard lock(mutex_);
  ++made_.rounds;
  // In a ring each peer sends 2 (n - 1) parts of 1/n.
  made_.bytes_sent +=
      2 * (experiment_.peers - 1) * std::uint64_t{contribution.all().size_bytes()} / experiment_.peers;
  return std::nullopt;
}

PeerOutcome AllReducePeer::gone(const Error& error) const {
  return failed((outer_ ? "the outer step after " : "the all-reduce after ") + std::to_string(made_.steps) +
                " steps failed, because another peer is gone or silent: " + error.message);
}

void AllReducePeer::end_sum(Clock::time_point ready, const Contribution& contribution) {
  {
    const std::lock_guard lock(mutex_);
    phases_.end_sum(ready, contribution.all_ready());
  }
  enter(Phase::computing);
}

void AllReducePeer::apply_sum(std::span<float> gradient_sum) {
  for (float& value : gradient_sum) value /= static_cast<float>(experiment_.peers);
  replica_->workers.front()->replace_gradient(gradient_sum);
  apply();
}

void AllReducePeer::apply() {
  training::Worker& worker = *replica_->workers.front();
  const double factor = training::step_rate_factor(schedule_, swarm_samples(),
                                                   experiment_.peers * experiment_.training.batch_size,
                                                   replica_->data.train.size(), made_.steps + 1);
  worker.set_rate([factor] { return factor; });
  worker.land();
  worker.wait();
  const std::lock_guard lock(mutex_);
  learning_rate_ = training::resolved_learning_rate(experiment_) * factor;
}

PeerOutcome AllReducePeer::end_training(Collective& collective) {
  enter(Phase::none);
  {
    const std::lock_guard lock(mutex_);
    training_end_ = Clock::now();
  }
  spdlog::info("training ends after {} steps", made_.steps);
  if (const Status met = collective.wait_for_all(); !met) spdlog::debug("{}", met.error().message);
  if (!process_.saves()) return {};
  std::vector<float> parameters(replica_->arena.size());
  replica_->arena.read(0, parameters);
  const std::string path = process_.file(options_.name);
  if (const Status written = write_replica(path, *replica_, experiment_, parameters); !written)
    return failed(written.error().message);
  final_path_ = path;
  spdlog::info("parameters written to {}", path);
  return {};
}

// Where all replicas are equal, the first peer's is the mean of all; the others report only their progress.
void AllReducePeer::leave_snapshot_if_due() {
  if (!process_.is_launched()) return;
  const auto due = process_.due_snapshot(swarm_samples(), replica_->data.train.size());
  if (!due) return;
  auto report = make_report(training::PeerReport::Kind::snapshot);
  report.snapshot = *due;
  auto send = [this, report](std::string path) mutable {
    report.path = std::move(path);
    process_.report(report);
  };
  const bool equal = !outer_ || experiment_.gossip.fragments == 1;
  if (equal && options_.number != 0) return asio::post(io_, [send]() mutable { send(""); });
  process_.save({process_.file(options_.name + ".snapshot-" + std::to_string(*due))}, *replica_, experiment_,
                send);
}

}  // namespace

PeerOutcome run_all_reduce_peer(const AllReduceOptions& options) { return AllReducePeer(options).run(); }

}  // namespace starling::node
