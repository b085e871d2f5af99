#include "node/all_reduce/all_reduce.h"

#include <algorithm>
#include <atomic>
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
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include "node/work/background.h"
#include "node/all_reduce/collective.h"
#include "node/launch/launcher_link.h"
#include "node/work/processors.h"
#include "node/work/replica.h"
#include "node/work/slowdown.h"
#include "training/experiment/control.h"
#include "training/replica/recipe.h"
#include "training/experiment/schedule.h"

namespace starling::node {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Duration kReportInterval = std::chrono::milliseconds(250);
constexpr Duration kLogInterval = std::chrono::seconds(5);
constexpr Duration kLeaveLimit = std::chrono::seconds(3);  // from a signal to the process's end
constexpr Duration kLastReportLimit = std::chrono::milliseconds(300);
constexpr std::size_t kSavesMax = 4;  // copies of the parameters that wait for the disk
constexpr std::chrono::duration<double, std::nano> kLongestStep{1e18};

constexpr int kFailed = 1, kBadInput = 2, kKilled = 130;

// What travels behind the gradient, to be summed with it; and behind these, for each rank, when it was there.
enum Word : std::size_t { asked_to_end, lost, words };

// An instant in two floats, exactly: microseconds, up to half a year of them. Zeros are no instant, so each
// rank fills its own two, and after the sum all know all. They share the clock, as they share the machine.
constexpr std::uint64_t kHalf = 1 << 22;
void write_instant(Clock::time_point at, float* two) {
  const auto microseconds = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count());
  two[0] = static_cast<float>(microseconds / kHalf % kHalf);
  two[1] = static_cast<float>(microseconds % kHalf);
}
Clock::time_point latest_instant(std::span<const float> twos) {
  std::uint64_t latest = 0;
  for (std::size_t i = 0; i + 1 < twos.size(); i += 2)
    latest = std::max(latest,
                      static_cast<std::uint64_t>(twos[i]) * kHalf + static_cast<std::uint64_t>(twos[i + 1]));
  return Clock::time_point(std::chrono::microseconds(latest));
}

class AllReducePeer {
 public:
  explicit AllReducePeer(const AllReduceOptions& options)
      : options_(options),
        experiment_(options.experiment),
        signals_(io_),
        report_timer_(io_),
        slowdowns_(slowdowns_of(experiment_, options_.number, experiment_.seed)),
        disk_(io_.get_executor()) {}

  PeerOutcome run();

 private:
  enum class Phase : std::uint8_t { none, computing, summing };

  // ---- the main thread ----
  void connect_launcher();
  void watch_signals();
  void report_and_log();
  void ask_for_end();
  void leave();
  void quit(PeerOutcome outcome);
  training::PeerReport make_report(training::PeerReport::Kind kind) const;

  // ---- the trainer's thread ----
  PeerOutcome train();
  Result<std::unique_ptr<Collective>> meet();
  PeerOutcome train_on(Collective& collective);
  void wait_out(Clock::time_point step_start, std::uint64_t step);
  void count(double loss);
  void enter(Phase phase);
  void account_sum(Clock::time_point began, Clock::time_point all_there);
  bool is_over() const;
  void leave_snapshot_if_due();
  PeerOutcome failed(const std::string& why) const;

  double seconds_trained() const {
    if (!training_start_) return 0;
    return std::chrono::duration<double>(training_end_.value_or(Clock::now()) - *training_start_).count();
  }
  std::size_t floats_summed() const {
    return replica_->arena.size() + Word::words + 2 * std::size_t{experiment_.peers};
  }
  std::uint64_t swarm_samples() const { return steps_ * experiment_.peers * experiment_.batch_size; }

  const AllReduceOptions& options_;
  const training::Experiment& experiment_;
  asio::io_context io_{1};
  asio::signal_set signals_;
  asio::steady_timer report_timer_;
  std::unique_ptr<LauncherLink> launcher_;
  bool launcher_gone_ = false, signalled_ = false, leaving_ = false, over_ = false;
  Clock::time_point last_log_ = Clock::now(), leaving_since_;
  PeerOutcome outcome_;

  std::unique_ptr<Replica> replica_;  // of the trainer's thread
  training::Schedule schedule_;
  const std::vector<Slowdown> slowdowns_;
  std::uint64_t snapshots_ = 0;

  mutable std::mutex mutex_;  // of what both threads know
  std::condition_variable wake_;
  bool end_asked_ = false;
  std::string state_ = "joining", device_ = "cpu";
  std::uint64_t steps_ = 0;
  std::optional<double> loss_, learning_rate_;
  std::optional<Clock::time_point> training_start_, training_end_;
  Phase phase_ = Phase::none;
  Clock::time_point phase_since_;
  Clock::duration computing_{0}, exchanging_{0},
      waiting_{0};  // for the launcher's time lines, phases that are over
  std::string final_path_;
  std::size_t saves_ = 0;  // under way

  Background disk_;  // last, as its thread uses what stands above
};

// ---- the main thread ----

void AllReducePeer::connect_launcher() {
  if (options_.control_fd < 0) return;
  launcher_ = std::make_unique<LauncherLink>(
      io_.get_executor(), options_.control_fd,
      [this](const std::string& command) {
        if (command == training::kEndCommand) ask_for_end();
        if (command == training::kLeaveCommand) leave();
      },
      [this] {
        launcher_gone_ = true;
        leave();
      });
  launcher_->report(make_report(training::PeerReport::Kind::listening));
}

void AllReducePeer::watch_signals() {
  signals_.async_wait([this](const asio::error_code& error, int) {
    if (error) return;
    if (signalled_) std::_Exit(kKilled);  // asked twice: at once
    signalled_ = true;
    leave();
    watch_signals();
  });
}

// After the next step. Where there is none yet, somebody may be missing for whom the others would wait: then
// at once.
void AllReducePeer::ask_for_end() {
  bool began = false;
  {
    const std::lock_guard lock(mutex_);
    end_asked_ = true;
    began = training_start_.has_value();
  }
  wake_.notify_all();
  if (!began)
    quit(failed("asked to end before all " + std::to_string(experiment_.peers) + " peers had come together"));
}

void AllReducePeer::leave() {
  if (leaving_ || over_) return;
  leaving_ = true;
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
  report.steps = steps_;
  report.samples = steps_ * experiment_.batch_size;
  report.swarm_samples = swarm_samples();
  report.members = experiment_.peers;
  report.loss = loss_;
  report.learning_rate = learning_rate_;
  report.seconds = seconds_trained();
  if (report.seconds > 0) report.samples_per_second = static_cast<double>(report.samples) / report.seconds;
  // An all-reduce counts once among all: at the first of them.
  (options_.number == 0 ? report.exchanges.completed : report.answered) = steps_;
  if (options_.number == 0) report.staleness.counts()[0] = steps_;  // nobody steps while the sum is made
  const Clock::duration going_on = phase_ == Phase::none ? Clock::duration{0} : Clock::now() - phase_since_;
  const bool computes = phase_ == Phase::computing;
  report.computing_seconds = to_seconds(computing_ + (computes ? going_on : Clock::duration{0}));
  report.exchanging_seconds = to_seconds(exchanging_);
  report.waiting_seconds = to_seconds(waiting_ + (computes ? Clock::duration{0} : going_on));
  if (replica_ && training_start_) {
    // What a ring sends: each peer 2 (n - 1) parts of 1/n.
    const std::uint64_t bytes = sizeof(float) * floats_summed();
    report.bytes_sent = steps_ * (2 * (experiment_.peers - 1) * bytes / experiment_.peers);
  }
  return report;
}

void AllReducePeer::report_and_log() {
  const training::PeerReport report = make_report(training::PeerReport::Kind::status);
  if (launcher_) launcher_->report(report);
  if (report.steps > 0 && Clock::now() - last_log_ >= kLogInterval) {
    last_log_ = Clock::now();
    spdlog::info("{}: {} steps, {:.0f} samples/s, loss {:.4f}", report.state, report.steps,
                 report.samples_per_second, report.loss.value_or(0));
  }
  if (leaving_ && Clock::now() - leaving_since_ > kLeaveLimit)
    return quit(failed("left in the middle of a step, as another peer is not done with it"));
  report_timer_.expires_after(kReportInterval);
  report_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) report_and_log();
  });
}

PeerOutcome AllReducePeer::run() {
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
  watch_signals();
  connect_launcher();
  report_and_log();
  std::thread trainer([this] {
    PeerOutcome outcome = train();
    asio::post(io_, [this, outcome = std::move(outcome)] { quit(outcome); });
  });
  io_.run();
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    ended = state_ == "finished" || state_ == "failed";
  }
  if (launcher_ && !launcher_gone_) {
    training::PeerReport report = make_report(training::PeerReport::Kind::finished);
    report.path = final_path_;
    launcher_->report_last(report, kLastReportLimit);
  }
  if (ended) {
    trainer.join();
    return outcome_;
  }
  // Else the trainer is in a wait for others that nothing interrupts.
  if (!outcome_.error.empty()) std::fprintf(stderr, "starling peer: %s\n", outcome_.error.c_str());
  std::_Exit(outcome_.exit_code);
}

// ---- the trainer's thread ----

PeerOutcome AllReducePeer::failed(const std::string& why) const {
  return {kFailed, why};
}

PeerOutcome AllReducePeer::train() {
  PeerOutcome outcome;
  try {
    const auto slot = std::pair(options_.number, experiment_.peers);
    auto replica = make_replica(experiment_, options_.data_root, slot, options_.number);
    const auto schedule = training::make_schedule(experiment_);
    if (!replica || !schedule) {
      outcome = {kBadInput, replica ? schedule.error().message : replica.error().message};
    } else {
      schedule_ = *schedule;
      {
        const std::lock_guard lock(mutex_);
        replica_ = std::move(*replica);
        device_ = replica_->devices();
      }
      if (const Status begun = training::write_starting_parameters(experiment_, replica_->plan, replica_->arena); !begun) {
        outcome = {kBadInput, begun.error().message};
      } else {
        auto collective = meet();
        outcome = collective ? train_on(**collective)
                             : failed("the peers did not come together: " + collective.error().message);
      }
    }
  } catch (const kernels::DeviceError& error) {
    outcome = failed(error.what());
  }
  const std::lock_guard lock(mutex_);
  state_ = outcome.exit_code == 0 ? "finished" : "failed";
  return outcome;
}

Result<std::unique_ptr<Collective>> AllReducePeer::meet() {
  return join_collective({options_.number, experiment_.peers, options_.rendezvous, options_.patience});
}

// A paced or slowed step waits here, unless the end is asked for.
void AllReducePeer::wait_out(Clock::time_point step_start, std::uint64_t step) {
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  const Nanoseconds took = std::max<Clock::duration>(Clock::now() - step_start, experiment_.pace);
  const double factor = slowness_of_step(slowdowns_, step_start - *training_start_, step);
  const auto until =
      step_start + std::chrono::duration_cast<Clock::duration>(std::min(took * factor, kLongestStep));
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
  const auto now = Clock::now();
  if (phase_ == Phase::computing) computing_ += now - phase_since_;
  phase_ = phase;
  phase_since_ = now;
}

// A sum that is done: until the last peer came it was a wait.
void AllReducePeer::account_sum(Clock::time_point began, Clock::time_point all_there) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  const auto met = std::clamp(all_there, began, now);
  waiting_ += met - began;
  exchanging_ += now - met;
  phase_ = Phase::none;
}

// What all know alike.
bool AllReducePeer::is_over() const {
  const double goal =
      std::ceil(experiment_.epochs.value_or(0) * static_cast<double>(replica_->data.train.size()));
  return (experiment_.epochs && static_cast<double>(swarm_samples()) >= goal) ||
         (experiment_.steps && steps_ >= *experiment_.steps);
}

PeerOutcome AllReducePeer::train_on(Collective& collective) {
  training::Worker& worker = *replica_->workers.front();
  models::Arena& arena = replica_->arena;
  if (const Status lowered = lower_priority(); !lowered) spdlog::debug("{}", lowered.error().message);
  spdlog::info("training begins: {} parameters, {} peers, batches of {}, on {}",
               replica_->plan.layout.parameter_count(), experiment_.peers, experiment_.batch_size,
               replica_->devices());
  {
    const std::lock_guard lock(mutex_);
    training_start_ = Clock::now();
    state_ = "training";
  }

  const double base_rate = training::resolved_learning_rate(experiment_);
  std::vector<float> sum(floats_summed());
  const std::span<float> mean = std::span(sum).first(arena.size());
  float* const said = sum.data() + arena.size();
  const std::span<float> there = std::span(sum).subspan(arena.size() + Word::words);
  PeerOutcome outcome;
  for (bool over = false; !over;) {
    const auto step_start = Clock::now();
    enter(Phase::computing);
    const double loss = worker.compute(arena.data());
    const auto gradient = worker.gradient();
    std::copy(gradient.begin(), gradient.end(), sum.begin());
    wait_out(step_start, steps_);
    {
      const std::lock_guard lock(mutex_);
      const bool late = experiment_.seconds && Clock::now() - *training_start_ >= *experiment_.seconds;
      said[Word::asked_to_end] = end_asked_ || late ? 1 : 0;
    }
    said[Word::lost] = std::isfinite(loss) ? 0 : 1;
    enter(Phase::summing);
    std::fill(there.begin(), there.end(), 0.0F);
    const auto came = Clock::now();
    write_instant(came, &there[2 * std::size_t{options_.number}]);
    if (const Status summed = collective.sum(sum); !summed) {
      return failed("the all-reduce after " + std::to_string(steps_) +
                    " steps failed, as another peer is gone or silent: " + summed.error().message);
    }
    account_sum(came, latest_instant(there));
    enter(Phase::computing);  // the step itself
    if (said[Word::lost] > 0) {
      return failed("the loss is not finite after " + std::to_string(steps_) +
                    " steps; a smaller training.learning_rate may help");
    }
    for (float& value : mean) value /= static_cast<float>(experiment_.peers);
    const double factor = training::step_rate_factor(
        schedule_, swarm_samples(), experiment_.peers * experiment_.batch_size, replica_->data.train.size());
    worker.replace_gradient(mean);
    worker.apply(arena, factor);
    worker.wait();
    {
      const std::lock_guard lock(mutex_);
      learning_rate_ = base_rate * factor;
    }
    count(loss);
    over = said[Word::asked_to_end] > 0 || is_over();
    leave_snapshot_if_due();
  }
  enter(Phase::none);
  {
    const std::lock_guard lock(mutex_);
    training_end_ = Clock::now();
  }
  spdlog::info("training ends after {} steps", steps_);
  if (const Status met = collective.wait_for_all(); !met) spdlog::debug("{}", met.error().message);
  if (options_.out.empty()) return outcome;
  std::vector<float> parameters(arena.size());
  arena.read(0, parameters);
  const std::string path = options_.out + "/" + options_.name + ".safetensors";
  if (const Status written = write_replica(path, *replica_, experiment_, parameters); !written)
    return failed(written.error().message);
  final_path_ = path;
  spdlog::info("parameters written to {}", path);
  return outcome;
}

// All replicas are equal, so the first peer's is the mean of all; the others say only that they are as far.
void AllReducePeer::leave_snapshot_if_due() {
  if (options_.snapshots == 0 || options_.out.empty() || !launcher_) return;
  const std::uint64_t due = swarm_samples() * options_.snapshots / replica_->data.train.size();
  if (due <= snapshots_) return;
  {
    const std::lock_guard lock(mutex_);
    if (saves_ >= kSavesMax) return;
    ++saves_;
  }
  snapshots_ = due;
  auto report = std::make_shared<training::PeerReport>(make_report(training::PeerReport::Kind::snapshot));
  report->snapshot = due;
  std::shared_ptr<std::vector<float>> parameters;
  if (options_.number == 0) {
    parameters = std::make_shared<std::vector<float>>(replica_->arena.size());
    replica_->arena.read(0, *parameters);
  }
  disk_.run(
      [this, parameters, report, due] {
        if (!parameters) return;
        const std::string path =
            options_.out + "/" + options_.name + ".snapshot-" + std::to_string(due) + ".safetensors";
        if (const Status written = write_replica(path, *replica_, experiment_, *parameters); !written) {
          spdlog::error("{}", written.error().message);
        } else {
          report->path = path;
        }
      },
      [this, report] {
        {
          const std::lock_guard lock(mutex_);
          --saves_;
        }
        launcher_->report(*report);
      });
}

}  // namespace

PeerOutcome run_all_reduce_peer(const AllReduceOptions& options) {
  AllReducePeer peer(options);
  return peer.run();
}

}  // namespace starling::node
