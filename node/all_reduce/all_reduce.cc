#include "node/all_reduce/all_reduce.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
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
#include "node/launch/process.h"
#include "node/work/background.h"
#include "node/work/processors.h"
#include "node/work/replica.h"
#include "node/work/slowdown.h"
#include "training/experiment/control.h"
#include "training/experiment/schedule.h"
#include "training/replica/recipe.h"

namespace starling::node {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Duration kLeaveLimit = std::chrono::seconds(3);  // from a signal to the process's end
constexpr int kFailed = 1, kBadInput = 2;

// What the peers sum in every step: the gradient, then a word for each thing that all must learn, then for
// each rank the instant at which it was ready to sum.
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
  std::optional<PeerOutcome> step(Collective& collective, Contribution& contribution);
  void apply(std::span<float> gradient_sum);
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
  std::uint64_t swarm_samples() const { return steps_ * experiment_.peers * experiment_.training.batch_size; }

  const AllReduceOptions& options_;
  const training::Experiment& experiment_;
  asio::io_context io_{1};
  Process process_;
  bool over_ = false;
  std::optional<Clock::time_point> leaving_since_;
  PeerOutcome outcome_;

  std::unique_ptr<Replica> replica_;  // the trainer's thread
  training::Schedule schedule_;
  const std::vector<Slowdown> slowdowns_;

  mutable std::mutex mutex_;  // for what both threads use
  std::condition_variable wake_;
  bool end_asked_ = false;
  std::string state_ = "joining", device_ = "cpu";
  std::uint64_t steps_ = 0;
  std::optional<double> loss_, learning_rate_;
  std::optional<Clock::time_point> training_start_, training_end_;
  PhaseClock phases_;
  std::string final_path_;

  Background disk_;  // last: its thread uses the members above
};

// ---- the main thread ----

// The run ends after the next step. Before the first step it ends at once, because a peer may be missing.
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
  report.steps = steps_;
  report.samples = steps_ * experiment_.training.batch_size;
  report.swarm_samples = swarm_samples();
  report.members = experiment_.peers;
  report.loss = loss_;
  report.learning_rate = learning_rate_;
  report.seconds = seconds_trained();
  if (report.seconds > 0) report.samples_per_second = static_cast<double>(report.samples) / report.seconds;
  // Each all-reduce counts once in the run: at the first peer.
  (options_.number == 0 ? report.exchanges.completed : report.answered) = steps_;
  if (options_.number == 0) report.staleness.counts()[0] = steps_;  // no peer makes a step during the sum
  const PhaseClock::Sums sums = phases_.sums();
  report.computing_seconds = to_seconds(sums.computing);
  report.exchanging_seconds = to_seconds(sums.exchanging);
  report.waiting_seconds = to_seconds(sums.waiting);
  if (replica_ && training_start_) {
    // In a ring each peer sends 2 (n - 1) parts of 1/n.
    const std::uint64_t bytes =
        sizeof(float) * Contribution::floats(replica_->arena.size(), experiment_.peers);
    report.bytes_sent = steps_ * (2 * (experiment_.peers - 1) * bytes / experiment_.peers);
  }
  return report;
}

void AllReducePeer::tick() {
  const training::PeerReport report = make_report(training::PeerReport::Kind::status);
  process_.report(report);
  if (report.steps > 0 && process_.is_time_to_log()) {
    spdlog::info("{}: {} steps, {:.0f} samples/s, loss {:.4f}", report.state, report.steps,
                 report.samples_per_second.value_or(0), report.loss.value_or(0));
  }
  if (leaving_since_ && Clock::now() - *leaving_since_ > kLeaveLimit)
    quit(failed("left during a step that another peer has not finished"));
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
  Contribution contribution(replica_->arena.size(), experiment_.peers);
  do {
    if (auto failure = step(**collective, contribution)) return *failure;
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
  loss_ = steps_ == 0 ? loss : 0.95 * *loss_ + 0.05 * loss;
  ++steps_;
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

// Has the same result in all peers.
bool AllReducePeer::is_over() const {
  const double goal =
      std::ceil(experiment_.end.epochs.value_or(0) * static_cast<double>(replica_->data.train.size()));
  return (experiment_.end.epochs && static_cast<double>(swarm_samples()) >= goal) ||
         (experiment_.end.steps && steps_ >= *experiment_.end.steps);
}

// Returns an outcome if the step failed.
std::optional<PeerOutcome> AllReducePeer::step(Collective& collective, Contribution& contribution) {
  training::Worker& worker = *replica_->workers.front();
  const auto start = Clock::now();
  enter(Phase::computing);
  const double loss = worker.compute(replica_->arena.data());
  const auto gradient = worker.gradient();
  std::copy(gradient.begin(), gradient.end(), contribution.gradient().begin());
  wait_out(start, steps_);
  contribution.set(Contribution::asked_to_end, wants_end());
  contribution.set(Contribution::lost, !std::isfinite(loss));

  enter(Phase::summing);
  const auto ready = Clock::now();
  contribution.set_ready(options_.number, ready);
  if (const Status summed = collective.sum(contribution.all()); !summed) {
    return failed("the all-reduce after " + std::to_string(steps_) +
                  " steps failed, because another peer is gone or silent: " + summed.error().message);
  }
  {
    const std::lock_guard lock(mutex_);
    phases_.end_sum(ready, contribution.all_ready());
  }
  enter(Phase::computing);
  if (contribution.is_set(Contribution::lost)) {
    return failed("the loss is not finite after " + std::to_string(steps_) +
                  " steps; a smaller training.learning_rate may help");
  }
  apply(contribution.gradient());
  count(loss);
  return std::nullopt;
}

void AllReducePeer::apply(std::span<float> gradient_sum) {
  training::Worker& worker = *replica_->workers.front();
  for (float& value : gradient_sum) value /= static_cast<float>(experiment_.peers);
  const double factor = training::step_rate_factor(schedule_, swarm_samples(),
                                                   experiment_.peers * experiment_.training.batch_size,
                                                   replica_->data.train.size(), steps_ + 1);
  worker.replace_gradient(gradient_sum);
  worker.apply(replica_->arena, factor);
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
  spdlog::info("training ends after {} steps", steps_);
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

// All replicas are equal, so the first peer's is the mean of all; the others report only their progress.
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
  if (options_.number != 0) return asio::post(io_, [send]() mutable { send(""); });
  process_.save(process_.file(options_.name + ".snapshot-" + std::to_string(*due)), *replica_, experiment_,
                send);
}

}  // namespace

PeerOutcome run_all_reduce_peer(const AllReduceOptions& options) {
  // Gloo writes to sockets without MSG_NOSIGNAL: the signal would end this process before it can say why.
  std::signal(SIGPIPE, SIG_IGN);
  return AllReducePeer(options).run();
}

}  // namespace starling::node
