#include "node/work/hogwild.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <spdlog/spdlog.h>

#include "base/check.h"

namespace starling::node {

using Clock = std::chrono::steady_clock;

namespace {

// Counts one more while it lives.
class Counted {
 public:
  explicit Counted(std::atomic<std::uint32_t>& count) : count_(count) { ++count_; }
  ~Counted() {
    --count_;
    count_.notify_all();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<std::uint32_t>& count_;
};

}  // namespace

// The steps of a worker. A slowed or paced step lands at its end, on parameters that others have changed
// since it began, as on a slow machine. If updates are made meanwhile, the arena counts as changing until all
// batches in flight have landed: before a pause, a capture and the end.
class HogwildTrainer::Steps {
 public:
  Steps(HogwildTrainer& trainer, std::size_t number)
      : trainer_(trainer), number_(number), worker_(*trainer.workers_[number]) {}

  void run() {
    while (await_step()) {
      const auto step_start = Clock::now();
      const std::uint64_t begun = trainer_.steps_begun_.fetch_add(1, std::memory_order_relaxed);
      worker_.feed(trainer_.arena_of(number_));
      wait_out(step_start, begun);
      const auto landing_start = Clock::now();
      while (worker_.is_full()) land();
      landing_ = Clock::now() - landing_start;
      if (!awaits_handled_) continue;
      land_all();
      trainer_.await_handled(number_, *std::exchange(awaits_handled_, std::nullopt));
    }
  }

 private:
  // Waits for the end of a pause and for a step in the budget, and answers captures meanwhile. False: the
  // trainer has stopped, and nothing is in flight.
  bool await_step() {
    Gate& gate = trainer_.gate_;
    for (;;) {
      const std::uint64_t era = gate.era();
      if (take_step()) {
        if (may_change_arena(era)) break;
        trainer_.budget_.give_back();
        continue;
      }
      land_all();
      if (gate.is_stopped()) return false;
      trainer_.answer_capture(number_);
      gate.wait_idle([&] { return may_begin() || trainer_.captures_.awaits(number_); });
    }
    if (trainer_.renewals_ != renewals_) {  // during a pause, before which all have landed
      renewals_ = trainer_.renewals_;
      worker_.renew();
    }
    return true;
  }

  bool may_begin() const { return trainer_.gate_.is_open() && trainer_.budget_.is_left(); }
  // False if no step may begin now, or a capture waits.
  bool take_step() {
    return !trainer_.gate_.is_stopped() && !trainer_.captures_.awaits(number_) && trainer_.gate_.is_open() &&
           trainer_.budget_.take();
  }

  // For the next step. False if a pause began in between, which did not wait for this thread.
  bool may_change_arena(std::uint64_t era) {
    const Gate& gate = trainer_.gate_;
    if (worker_.updates_meanwhile()) {
      if (!applying_) applying_.emplace(trainer_.applying_);
      if (!gate.is_open() || gate.is_stopped() || era != gate.era()) return false;
    }
    era_ = era;
    return true;
  }

  // Until the step is due, less the time that the last one took to land.
  void wait_out(Clock::time_point step_start, std::uint64_t begun) {
    const Nanoseconds took =
        std::max<Nanoseconds>(Clock::now() - step_start + landing_, trainer_.options_.pace);
    const Nanoseconds due = slowed(took, trainer_.options_.slowdowns, step_start - start_, begun);
    trainer_.gate_.wait_until(step_start + std::chrono::duration_cast<Clock::duration>(due - landing_), [&] {
      return worker_.updates_meanwhile() && (!trainer_.gate_.is_open() || trainer_.captures_.awaits(number_));
    });
  }

  void land_all() {
    while (land()) {
    }
    applying_.reset();
  }

  // Ends the oldest step in flight, and counts it unless its era has ended. One whose update is not made yet
  // is dropped if its era has ended or the trainer has stopped. False: none is in flight.
  bool land() {
    std::optional<double> loss;
    {
      // Before the checks: stop() and discard_steps() change what is checked, and then wait for this.
      const Counted applying(trainer_.applying_);
      const bool counts =
          era_ == trainer_.gate_.era() && (worker_.updates_meanwhile() || !trainer_.gate_.is_stopped());
      if (!counts) {
        const bool dropped = worker_.drop();
        if (dropped) trainer_.budget_.give_back();
        return dropped;
      }
      loss = worker_.land();
      if (!loss) return false;
      const std::uint64_t steps = trainer_.count(number_, *loss);
      if (trainer_.waits_after(steps)) awaits_handled_ = steps;
    }
    if (trainer_.average_is_due())
      trainer_.gate_.nudge();  // if the averaging thread misses it, the next follows
    trainer_.stepped_();
    return true;
  }

  HogwildTrainer& trainer_;
  const std::size_t number_;
  training::Worker& worker_;
  const Clock::time_point start_ = Clock::now();
  Nanoseconds landing_{0};           // the time that the last step took to land
  std::optional<Counted> applying_;  // while updates may be made meanwhile
  std::uint64_t era_ = 0;            // of the latest step
  std::uint64_t renewals_ = 0;
  std::optional<std::uint64_t> awaits_handled_;  // the number of the latest step that waits
};

HogwildTrainer::HogwildTrainer(std::vector<std::unique_ptr<training::Worker>> workers, models::Arena& arena,
                               TrainerOptions options, std::function<void()> stepped,
                               training::DeviceGroup* group)
    : workers_(std::move(workers)),
      arena_(arena),
      options_(std::move(options)),
      stepped_(std::move(stepped)),
      group_(group),
      gate_(workers_.size()),
      budget_(gate_, options_.last_step),
      captures_(gate_, workers_.size()),
      seats_(workers_.size()) {
  STARLING_CHECK(group_ == nullptr || workers_.size() % group_->size() == 0);
  for (auto& worker : workers_) worker->set_rate([this] { return rate_factor(); });
}

std::vector<std::string> HogwildTrainer::restore(const training::PeerState& state) {
  std::vector<std::string> lost;
  if (state.workers.size() != workers_.size()) {
    lost.push_back("it has " + std::to_string(state.workers.size()) + " workers, and this peer has " +
                   std::to_string(workers_.size()) + ": " +
                   (state.workers.size() > workers_.size() ? "the state of the others is dropped"
                                                           : "the others begin without state"));
  }
  for (std::size_t i = 0; i < std::min(state.workers.size(), workers_.size()); ++i) {
    const std::string who = workers_.size() == 1 ? "" : " of worker " + std::to_string(i);
    if (const Status set = workers_[i]->restore_cursor(state.workers[i]); !set)
      lost.push_back("the position in the data" + who + " is dropped: " + set.error().message);
    if (const Status set = workers_[i]->restore_optimizer(state.workers[i], arena_of(i)); !set)
      lost.push_back("the optimizer state" + who + " is dropped: " + set.error().message);
  }
  earlier_.steps = state.steps;
  earlier_.samples = state.samples;
  earlier_.loss = state.loss;
  steps_ = state.steps;
  samples_ = state.samples;
  loss_ = state.loss.value_or(0);
  return lost;
}

bool HogwildTrainer::capture(Done done) {
  return !gate_.is_stopped() && !threads_.empty() && captures_.begin(earlier_, std::move(done));
}

void HogwildTrainer::answer_capture(std::size_t worker) {
  if (!captures_.awaits(worker)) return;
  const Seat& seat = seats_[worker];
  const bool last = captures_.add(worker, workers_[worker]->save(arena_of(worker)), seat.steps, seat.samples);
  if (last && group_ == nullptr) complete_capture();  // for a group, the next average does this
}

void HogwildTrainer::complete_capture() {
  captures_.finish([this](training::PeerState& state) { read_parameters(state); });
}

void HogwildTrainer::read_parameters(training::PeerState& state) {
  state.parameters.resize(arena_.size());
  arena_.wait();
  arena_.read(0, state.parameters);
  if (steps() > 0) state.loss = loss();
}

training::PeerState HogwildTrainer::remains() {
  STARLING_CHECK(gate_.is_stopped() || threads_.empty());
  join();
  training::PeerState state = earlier_;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    state.workers.push_back(workers_[i]->save(arena_of(i)));
    state.steps += seats_[i].steps;
    state.samples += seats_[i].samples;
  }
  read_parameters(state);
  return state;
}

void HogwildTrainer::join() {
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

void HogwildTrainer::start() {
  budget_.begin_at(steps());
  if (group_ != nullptr) {
    group_->adopt();
    average_due_ = steps_ + std::uint64_t{options_.average_every} * group_->size();
  }
  std::size_t threads = 0;
  for (const auto& worker : workers_) threads += worker->threads();
  if (threads > 1) processors_ = take_processors(threads, options_.machine);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    begin([this, i] {
      settle(i);
      Steps(*this, i).run();
    });
  }
  if (group_ != nullptr) begin([this] { average_repeatedly(); });
}

// Starts a thread that ends where its device fails.
void HogwildTrainer::begin(std::function<void()> body) {
  threads_.emplace_back([this, body = std::move(body)] {
    try {
      body();
    } catch (const kernels::DeviceError& error) {
      fail(error.what());
    }
  });
}

models::Arena& HogwildTrainer::arena_of(std::size_t worker) {
  if (group_ == nullptr) return arena_;
  return group_->replica(worker / (workers_.size() / group_->size()));
}

// A worker also trains if it cannot be pinned or lowered in priority.
void HogwildTrainer::settle(std::size_t worker) const {
  const std::size_t threads = workers_[worker]->threads();  // as many for each worker
  workers_[worker]->on_each_thread([&](std::size_t thread) {
    name_thread(thread == 0 ? "worker " + std::to_string(worker) : "part " + std::to_string(thread + 1));
    if (const Status lowered = lower_priority(); !lowered) spdlog::debug("{}", lowered.error().message);
    if (processors_.empty()) return;
    if (const Status pinned = pin_to(processors_[worker * threads + thread].number()); !pinned)
      spdlog::debug("{}", pinned.error().message);
  });
}

void HogwildTrainer::stop() {
  const bool first = gate_.stop();
  wait_for_updates();
  if (!first || group_ == nullptr || threads_.empty()) return;
  try {
    average();
  } catch (const kernels::DeviceError& error) {
    fail(error.what());
  }
}

void HogwildTrainer::allow_samples(std::uint64_t samples) {
  if (samples == UINT64_MAX || workers_.empty()) return budget_.allow(UINT64_MAX);
  const std::uint64_t further = samples - std::min(samples, earlier_.samples);
  const std::uint64_t batch = workers_.front()->batch_size();
  budget_.allow(earlier_.steps + further / batch + (further % batch > 0 ? 1 : 0));
}

// Waits for the updates that threads are adding, and for those that a device has queued.
void HogwildTrainer::wait_for_updates() const {
  for (auto busy = applying_.load(); busy > 0; busy = applying_.load()) applying_.wait(busy);
  try {
    for (const auto& worker : workers_) worker->wait();
  } catch (const kernels::DeviceError& error) {
    spdlog::debug("{}", error.what());  // nothing more is added; the worker reports the failure
  }
}

// Called by a thread that ends.
void HogwildTrainer::fail(const std::string& why) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = why;
  }
  stepped_();
}

std::optional<std::string> HogwildTrainer::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void HogwildTrainer::give_back() {
  stop();
  join();
  workers_.clear();
}

void HogwildTrainer::discard_steps() {
  gate_.begin_era();
  wait_for_updates();
}

void HogwildTrainer::renew() {
  if (group_ != nullptr) group_->adopt();
  ++renewals_;
  non_finite_ = false;
  loss_.store(std::numeric_limits<double>::quiet_NaN(), std::memory_order_relaxed);  // until the next step
}

void HogwildTrainer::handled(std::uint64_t steps) {
  if (options_.in_turn || options_.wait_every > 0) gate_.change([&] { handled_ = steps; });
}

std::optional<double> HogwildTrainer::spread() const {
  const double spread = spread_.load(std::memory_order_relaxed);
  if (spread < 0) return std::nullopt;
  return spread;
}

std::optional<double> HogwildTrainer::loss() const {
  if (steps() == 0 || (steps() == earlier_.steps && !earlier_.loss)) return std::nullopt;
  const double loss = loss_.load(std::memory_order_relaxed);
  return std::isfinite(loss) ? std::optional(loss) : std::nullopt;
}

// Counts a step whose update is made. Returns the number of steps so far.
std::uint64_t HogwildTrainer::count(std::size_t number, double loss) {
  const std::uint64_t batch = workers_[number]->batch_size();
  const double before = loss_.load(std::memory_order_relaxed);
  // The mean begins anew after a loss that is not finite, which would stay in it for ever.
  const bool first = (steps() == earlier_.steps && !earlier_.loss) || !std::isfinite(before);
  loss_.store(first ? loss : 0.95 * before + 0.05 * loss, std::memory_order_relaxed);
  if (!std::isfinite(loss)) non_finite_ = true;
  samples_.fetch_add(batch, std::memory_order_relaxed);
  const std::uint64_t made = 1 + steps_.fetch_add(1, std::memory_order_relaxed);
  ++seats_[number].steps;
  seats_[number].samples += batch;
  return made;
}

void HogwildTrainer::await_handled(std::size_t worker, std::uint64_t steps) {
  while (handled_ < steps && !gate_.is_stopped()) {
    answer_capture(worker);
    gate_.wait([&] { return handled_ >= steps || captures_.awaits(worker); });
  }
}

bool HogwildTrainer::average_is_due() const {
  return group_ != nullptr && (steps_ >= average_due_ || captures_.is_complete());
}

// Not while the training is paused: the arena may be about to be replaced.
void HogwildTrainer::average_repeatedly() {
  while (!gate_.is_stopped()) {
    const std::uint64_t era = gate_.era();
    gate_.wait([&] { return gate_.is_open() && average_is_due(); });
    const Counted applying(applying_);  // as in Steps::land()
    if (gate_.is_stopped() || !gate_.is_open() || era != gate_.era()) continue;
    const bool captured = captures_.is_complete();  // before the average, which then holds all of its steps
    average();
    if (captured) complete_capture();
  }
}

void HogwildTrainer::average() {
  average_due_ = steps_ + std::uint64_t{options_.average_every} * group_->size();
  const auto spread = group_->average();
  spread_.store(spread.distance, std::memory_order_relaxed);
  if (!spread.finite) non_finite_ = true;
}

}  // namespace starling::node
