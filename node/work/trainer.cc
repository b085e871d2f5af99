#include "node/work/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <spdlog/spdlog.h>

#include "base/check.h"

namespace starling::node {

using Clock = std::chrono::steady_clock;

namespace {

// Whatever the factors multiply to, an instant so much later can still be told.
constexpr std::chrono::duration<double, std::nano> kLongestStep{1e18};

// One more while it lives.
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

Trainer::Trainer(std::vector<std::unique_ptr<training::Worker>> workers, models::Arena& arena,
                 TrainerOptions options, std::function<void()> stepped, training::DeviceGroup* group)
    : workers_(std::move(workers)),
      arena_(arena),
      options_(std::move(options)),
      stepped_(std::move(stepped)),
      group_(group),
      seats_(workers_.size()) {
  STARLING_CHECK(group_ == nullptr || workers_.size() % group_->size() == 0);
}

Trainer::~Trainer() {
  give_back();
}

std::vector<std::string> Trainer::restore(const training::PeerState& state) {
  std::vector<std::string> lost;
  if (state.workers.size() != workers_.size()) {
    lost.push_back("it is of " + std::to_string(state.workers.size()) + " workers, and this peer has " +
                   std::to_string(workers_.size()) + ": " +
                   (state.workers.size() > workers_.size() ? "what the others remembered is given up"
                                                           : "the others begin anew"));
  }
  for (std::size_t i = 0; i < std::min(state.workers.size(), workers_.size()); ++i) {
    const std::string who = workers_.size() == 1 ? "" : " of worker " + std::to_string(i);
    if (const Status set = workers_[i]->restore_cursor(state.workers[i]); !set)
      lost.push_back("the place in the data" + who + " is given up, as " + set.error().message);
    if (const Status set = workers_[i]->restore_optimizer(state.workers[i], arena_of(i)); !set)
      lost.push_back("what the optimizer" + who + " remembered is given up, as " + set.error().message);
  }
  earlier_.steps = state.steps;
  earlier_.samples = state.samples;
  earlier_.loss = state.loss;
  steps_ = state.steps;
  samples_ = state.samples;
  loss_ = state.loss.value_or(0);
  return lost;
}

void Trainer::moved() {
  for (auto& worker : workers_) worker->moved();
}

bool Trainer::capture(Captured done) {
  {
    const std::lock_guard lock(mutex_);
    if (captured_ || stopped_ || threads_.empty()) return false;
    captured_ = std::make_shared<training::PeerState>(earlier_);
    captured_->workers.resize(workers_.size());
    capture_done_ = std::move(done);
    captures_missing_ = workers_.size();
    ++captures_;
  }
  wake_.notify_all();
  return true;
}

// Of a worker between two steps.
void Trainer::answer_capture(std::size_t worker) {
  Seat& seat = seats_[worker];
  const std::uint64_t asked = captures_;
  if (seat.answered == asked) return;
  seat.answered = asked;
  training::WorkerState own = workers_[worker]->save(arena_of(worker));
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    captured_->workers[worker] = std::move(own);
    captured_->steps += seat.steps;
    captured_->samples += seat.samples;
    const bool last = --captures_missing_ == 0;
    capture_awaits_average_ = last && group_ != nullptr;
    if (capture_awaits_average_) average_due_ = 0;
    complete = last && group_ == nullptr;
  }
  if (complete) complete_capture();
  if (group_ != nullptr) wake_.notify_all();
}

void Trainer::complete_capture() {
  std::shared_ptr<training::PeerState> state;
  {
    const std::lock_guard lock(mutex_);
    state = captured_;
  }
  state->parameters.resize(arena_.size());
  arena_.wait();
  arena_.read(0, state->parameters);
  if (steps() > 0) state->loss = loss_.load(std::memory_order_relaxed);
  Captured done;
  {
    const std::lock_guard lock(mutex_);
    captured_.reset();
    capture_awaits_average_ = false;
    done = std::move(capture_done_);
  }
  done(std::move(state));
}

training::PeerState Trainer::remains() {
  STARLING_CHECK(stopped_ || threads_.empty());
  join();
  training::PeerState state = earlier_;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    state.workers.push_back(workers_[i]->save(arena_of(i)));
    state.steps += seats_[i].steps;
    state.samples += seats_[i].samples;
  }
  state.parameters.resize(arena_.size());
  arena_.wait();
  arena_.read(0, state.parameters);
  if (steps() > 0) state.loss = loss_.load(std::memory_order_relaxed);
  return state;
}

void Trainer::join() {
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

void Trainer::start() {
  steps_taken_ = steps();
  if (group_ != nullptr) {
    group_->adopt();
    average_due_ = steps_ + std::uint64_t{options_.average_every} * group_->size();
  }
  if (workers_.size() > 1) processors_ = take_processors(workers_.size(), options_.machine);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    begin([this, i] {
      settle(i);
      work(i);
    });
  }
  if (group_ != nullptr) begin([this] { average_now_and_then(); });
}

// A thread of a device that may fail.
void Trainer::begin(std::function<void()> body) {
  threads_.emplace_back([this, body = std::move(body)] {
    try {
      body();
    } catch (const kernels::DeviceError& error) {
      fail(error.what());
    }
  });
}

models::Arena& Trainer::arena_of(std::size_t worker) {
  if (group_ == nullptr) return arena_;
  return group_->replica(worker / (workers_.size() / group_->size()));
}

// A worker's thread takes its place. One that may not trains all the same.
void Trainer::settle(std::size_t worker) const {
  if (const Status lowered = lower_priority(); !lowered) spdlog::debug("{}", lowered.error().message);
  if (processors_.empty()) return;
  if (const Status pinned = pin_to(processors_[worker].number()); !pinned)
    spdlog::debug("{}", pinned.error().message);
}

void Trainer::stop() {
  bool first;
  {
    const std::lock_guard lock(mutex_);
    first = !stopped_.exchange(true);
  }
  wake_.notify_all();
  wait_for_updates();
  if (!first || group_ == nullptr || threads_.empty()) return;
  try {
    average();
  } catch (const kernels::DeviceError& error) {
    fail(error.what());
  }
}

// Those that workers are about to add, and those that a device is still to add.
void Trainer::wait_for_updates() const {
  for (auto busy = applying_.load(); busy > 0; busy = applying_.load()) applying_.wait(busy);
  try {
    for (const auto& worker : workers_) worker->wait();
  } catch (const kernels::DeviceError& error) {
    spdlog::debug("{}", error.what());  // then it adds nothing any more; its worker says so
  }
}

// Of a thread at its end.
void Trainer::fail(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = why;
  }
  stepped_();
}

std::optional<std::string> Trainer::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Trainer::give_back() {
  stop();
  join();
  workers_.clear();
}

void Trainer::pause(bool discard) {
  {
    const std::lock_guard lock(mutex_);
    paused_ = true;
    if (discard) ++era_;
  }
  if (discard) wait_for_updates();
}

void Trainer::resume(bool renewed) {
  if (renewed && group_ != nullptr) group_->adopt();
  {
    const std::lock_guard lock(mutex_);
    if (renewed) {
      ++renewals_;
      non_finite_ = false;
    }
    paused_ = false;
  }
  wake_.notify_all();
}

void Trainer::heard(std::uint64_t steps) {
  if (!options_.in_turn) return;
  {
    const std::lock_guard lock(mutex_);
    heard_ = steps;
  }
  wake_.notify_all();
}

std::optional<double> Trainer::spread() const {
  const double spread = spread_.load(std::memory_order_relaxed);
  if (spread < 0) return std::nullopt;
  return spread;
}

std::optional<double> Trainer::loss() const {
  if (steps() == 0 || (steps() == earlier_.steps && !earlier_.loss)) return std::nullopt;
  return loss_.load(std::memory_order_relaxed);
}

// Adds the step's update and counts it; neither once the trainer is stopped, or the replica that the step was
// computed on is given up. False if it is stopped.
bool Trainer::apply(std::size_t number, double loss, std::uint64_t era) {
  training::Worker& worker = *workers_[number];
  const Counted applying(
      applying_);  // before the look at stopped_ and era_: who changes those then waits for this
  const bool goes_on = !stopped_;
  if (goes_on && era == era_) {
    worker.apply(arena_of(number), rate_factor());
    const double before = loss_.load(std::memory_order_relaxed);
    loss_.store(steps() == earlier_.steps && !earlier_.loss ? loss : 0.95 * before + 0.05 * loss, std::memory_order_relaxed);
    if (!std::isfinite(loss)) non_finite_ = true;
    samples_.fetch_add(worker.batch_size(), std::memory_order_relaxed);
    steps_.fetch_add(1, std::memory_order_relaxed);
    ++seats_[number].steps;
    seats_[number].samples += worker.batch_size();
  } else {
    give_step_back();
  }
  return goes_on;
}

// One of those that last_step leaves; false where all are made or under way.
bool Trainer::take_step() {
  if (options_.last_step == UINT64_MAX) return true;
  std::uint64_t taken = steps_taken_;
  while (taken < options_.last_step)
    if (steps_taken_.compare_exchange_weak(taken, taken + 1)) return true;
  return false;
}

// A step that was thrown away leaves another one to be made.
void Trainer::give_step_back() {
  if (options_.last_step == UINT64_MAX) return;
  {
    const std::lock_guard lock(mutex_);
    --steps_taken_;
  }
  wake_.notify_all();
}

// Waits out a pause, and, of a worker, for a step to be left that it may make; it answers meanwhile whoever wants a copy
// of it. The era that a step belongs to which begins now; nullopt once the trainer is stopped.
std::optional<std::uint64_t> Trainer::await_turn(std::optional<std::size_t> worker) {
  const bool works = worker.has_value();
  for (;;) {
    if (works && !stopped_) answer_capture(*worker);
    const std::uint64_t era = era_;  // before the look at paused_: pause() changes them in the other order
    if (stopped_) return std::nullopt;
    if (!paused_ && (!works || take_step())) return era;
    std::unique_lock lock(mutex_);
    if (works && ++standing_ == workers_.size()) standing_since_ = Clock::now();
    wake_.wait(lock, [&] {
      const bool may_go_on = !paused_ && (!works || steps_taken_ < options_.last_step);
      return stopped_ || may_go_on || (works && seats_[*worker].answered != captures_);
    });
    if (works && standing_-- == workers_.size()) stood_ += Clock::now() - standing_since_;
  }
}

Duration Trainer::idle() const {
  const std::lock_guard lock(mutex_);
  const bool all_stand = !workers_.empty() && standing_ == workers_.size();
  return stood_ + (all_stand ? Clock::now() - standing_since_ : Duration{0});
}

// While the workers go on; not while they are thrown off an arena that is about to be replaced.
void Trainer::average_now_and_then() {
  while (const auto era = await_turn(std::nullopt)) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopped_ || paused_ || average_is_due(); });
    }
    if (!average_is_due()) continue;
    const Counted applying(applying_);  // as in apply()
    if (stopped_ || *era != era_) continue;
    const bool wanted = [&] {  // before the average, which then has all that was captured
      const std::lock_guard lock(mutex_);
      return capture_awaits_average_;
    }();
    average();
    if (wanted) complete_capture();
  }
}

void Trainer::average() {
  average_due_ = steps_ + std::uint64_t{options_.average_every} * group_->size();
  const auto spread = group_->average();
  spread_.store(spread.distance, std::memory_order_relaxed);
  if (!spread.finite) non_finite_ = true;
}

// Until then, or until the trainer is stopped.
void Trainer::await_time(Clock::time_point until) {
  if (until <= Clock::now()) return;
  std::unique_lock lock(mutex_);
  wake_.wait_until(lock, until, [&] { return stopped_.load(); });
}

// A step of a slow or paced machine lands at its end, on parameters that others have changed since it began, as it
// would there.
void Trainer::work(std::size_t number) {
  training::Worker& worker = *workers_[number];
  const models::Arena& arena = arena_of(number);
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  const auto start = Clock::now();
  std::uint64_t renewals = 0;
  Nanoseconds landing{0};  // what the last one took to land
  while (const auto era = await_turn(number)) {
    if (renewals_ != renewals) {
      renewals = renewals_;
      worker.renew();
    }
    const auto step_start = Clock::now();
    const std::uint64_t begun = steps_begun_.fetch_add(1, std::memory_order_relaxed);
    const double loss = worker.compute(arena.data());
    const Nanoseconds took = std::max<Nanoseconds>(Clock::now() - step_start + landing, options_.pace);
    const Nanoseconds due =
        std::min<Nanoseconds>(took * slowness_of_step(options_.slowdowns, step_start - start, begun), kLongestStep);
    await_time(step_start + std::chrono::duration_cast<Clock::duration>(due - landing));

    const auto landing_start = Clock::now();
    if (!apply(number, loss, *era)) return;
    landing = Clock::now() - landing_start;
    if (average_is_due())
      wake_.notify_all();  // should it come too early to be heard, the next step's will not
    const std::uint64_t steps = steps_;
    stepped_();
    if (!options_.in_turn) continue;
    for (bool heard = false; !heard && !stopped_;) {
      answer_capture(number);
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopped_ || heard_ >= steps || seats_[number].answered != captures_; });
      heard = heard_ >= steps;
    }
  }
}

}  // namespace starling::node
