#include "node/trainers/outside_trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "base/check.h"
#include "transport/coroutines.h"

namespace starling::node {
namespace {

// How often the counts of a trainer that does not ring are read.
constexpr auto kWatchInterval = std::chrono::milliseconds(50);
// A trainer that claims more samples in a step counts none.
constexpr std::uint64_t kStepSamplesMax = std::uint64_t{1} << 24;
constexpr std::uint64_t kNoLimit = UINT64_MAX;
// Steps from a post to one that only asks for what exchanges have brought since its reply: a post and its
// reply take the trainer as long as a few passes over its parameters.
constexpr std::uint64_t kNewsSteps = 8;

// The values of the word `waits`.
enum class Waits : std::uint8_t { nothing, paused, rule, replica, last };

std::uint64_t next_multiple(std::uint64_t steps, std::uint64_t of) { return (steps / of + 1) * of; }

std::uint8_t bit(PausedBy who) { return static_cast<std::uint8_t>(who); }

std::optional<double> known(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string nobody_attached(Duration grace) {
  return fmt::format("no trainer has attached for {:.0f} s after the last one ended", to_seconds(grace));
}

OutsideTrainer::OutsideTrainer(Attachment& attachment, models::Arena& arena, Background& background,
                               asio::any_io_executor executor, const OutsideOptions& options, Events events)
    : attachment_(attachment),
      arena_(arena),
      background_(background),
      options_(options),
      events_(std::move(events)),
      watch_timer_(executor),
      grace_timer_(executor) {
  if (!attachment_.declaration().view) {
    boxes_ = std::make_unique<Mailboxes>(
        attachment_.region(), arena_, executor,
        Mailboxes::Events{.absorbed = [this](Mailboxes::Post post) { absorbed(post); },
                          .replied = [this] { plan(); }});
  }
  const auto bye = [this] {
    if (stage_ == Stage::running) stage_ = Stage::said_bye;
    rang();
  };
  attachment_.listen_to(
      {.ready = [this] { begin(); }, .rang = [this] { rang(); }, .bye = bye, .gone = [this] { gone(); }});
}

OutsideTrainer::~OutsideTrainer() { attachment_.listen_to({}); }

// ---- the trainer's life ----

void OutsideTrainer::start() {
  stage_ = Stage::running;
  transport::spawn(watch_timer_.get_executor(), watch());
  if (attachment_.is_ready())
    begin();
  else
    await_another();
}

// The trainer has written its parameters and waits. It takes the arena's parameters, which are its own if it
// began the run.
void OutsideTrainer::begin() {
  grace_timer_.cancel();
  if (stage_ != Stage::running) return;
  rung_ = ring_at_ = 0;
  handled_ = posted_steps_ = steps();
  Region& region = attachment_.region();
  region.set(PeerWord::rate_factor, rate_factor());
  if (boxes_) boxes_->begin(era_);
  attachment_.offer_state(era_);
  region.set(PeerWord::era, era_);
  plan();
  attachment_.start();
}

void OutsideTrainer::gone() {
  if (boxes_) boxes_->abandon();
  before_ = {steps(), samples()};
  now_ = {};
  if (stage_ > Stage::running) return;
  await_another();
  if (stage_ == Stage::running) events_.stepped();
}

void OutsideTrainer::await_another() {
  const double seconds = to_seconds(options_.grace);
  spdlog::warn("the trainer has ended; for {:.0f} s the peer answers others, and another trainer may attach",
               seconds);
  grace_timer_.expires_after(std::chrono::duration_cast<Clock::duration>(options_.grace));
  grace_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) end(nobody_attached(options_.grace));
  });
}

void OutsideTrainer::end(const std::string& why) {
  if (stage_ >= Stage::ended) return;
  stage_ = Stage::ended;
  events_.ended(why);
}

void OutsideTrainer::stop() {
  if (stage_ == Stage::stopped) return;
  const bool ran = stage_ != Stage::preparing && attachment_.is_ready();
  if (ran && !counts_posts()) take_counts(TrainerWord::steps, TrainerWord::samples);
  stage_ = Stage::stopped;
  if (boxes_) boxes_->abandon();
  watch_timer_.cancel();
  grace_timer_.cancel();
  if (ran) plan();
}

void OutsideTrainer::say_over(const std::string& why) {
  if (!attachment_.is_ready()) return;
  if (boxes_) boxes_->write_reply();
  attachment_.over(why);
}

// Reads the counts of a trainer that has no reason to ring.
asio::awaitable<void> OutsideTrainer::watch() {
  while (stage_ < Stage::stopped) {
    watch_timer_.expires_after(kWatchInterval);
    asio::error_code ignored;
    co_await watch_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (attachment_.is_ready()) rang();
  }
}

// ---- steps ----

void OutsideTrainer::rang() {
  if (stage_ != Stage::running && stage_ != Stage::said_bye) return;
  const Counts counted = now_;
  if (!counts_posts()) take_counts(TrainerWord::steps, TrainerWord::samples);
  if (!boxes_)
    rung_ = std::max(rung_, std::min(now_.steps, ring_at_));
  else if (boxes_->take()) {
    rung_ = ring_at_;
    posted_steps_ = steps();
  }
  if (boxes_ && boxes_->is_absorbing()) return;  // absorbed() follows
  if (now_.steps != counted.steps) events_.stepped();
  if (stage_ == Stage::said_bye) return end(std::string(kLastStep));
  plan();
}

void OutsideTrainer::absorbed(Mailboxes::Post post) {
  if (post == Mailboxes::Post::not_finite) non_finite_ = true;
  if (counts_posts() && post != Mailboxes::Post::not_finite)
    take_counts(TrainerWord::post_steps, TrainerWord::post_samples);
  events_.stepped();
  if (stage_ == Stage::said_bye) return end(std::string(kLastStep));
  plan();
}

void OutsideTrainer::take_counts(TrainerWord steps_word, TrainerWord samples_word) {
  const Region& region = attachment_.region();
  const std::uint64_t steps = region.get(steps_word), samples = region.get(samples_word);
  const std::uint64_t more = steps - now_.steps, more_samples = samples - now_.samples;
  const bool possible = steps >= now_.steps && samples >= now_.samples && more < (std::uint64_t{1} << 32) &&
                        more_samples / kStepSamplesMax <= more;
  if (!possible || more == 0) return;
  now_ = {steps, samples};
  loss_.take(region.get_real(TrainerWord::loss), steps);
}

void OutsideTrainer::Loss::take(double loss, std::uint64_t steps) {
  if (std::isfinite(loss)) {
    shown = shown ? 0.95 * *shown + 0.05 * loss : loss;
    warned = false;
    return;
  }
  // Infinity is a loss that is not finite. NaN is one, too, if there was a finite one before.
  if ((shown || std::isinf(loss)) && !std::exchange(warned, true))
    spdlog::warn("the trainer's loss is not finite after {} steps, and is shown as unknown", steps);
  shown.reset();
}

// ---- what the trainer may do next ----

// Writes the words that bound the trainer.
void OutsideTrainer::plan() {
  if (stage_ == Stage::preparing || !attachment_.is_ready()) return;
  if (boxes_ && stage_ < Stage::ended && may_continue()) {
    const bool is_due = ring_at_ > rung_ && now_.steps >= ring_at_;
    const bool trainer_waits = waits_here() || is_due || now_.steps >= limit();
    if (boxes_->reply_is_due(trainer_waits)) boxes_->reply();  // and plans again
  }
  Region& region = attachment_.region();
  region.set(PeerWord::exchanges, arena_.mixes());
  region.set(PeerWord::rate_factor, rate_factor());
  plan_ring();
  const std::uint64_t limit = this->limit();
  const bool blocked = now_.steps >= limit;
  region.set(PeerWord::waits, blocked ? reason() : std::uint64_t{0});
  const bool more = limit > allowed_;
  allowed_ = limit;
  region.set(PeerWord::allowed, limit);
  if (more) attachment_.ring();
  if (blocked && !idle_since_) idle_since_ = Clock::now();
  if (!blocked && idle_since_) idle_ += Clock::now() - *std::exchange(idle_since_, std::nullopt);
}

// Whether it is settled what the steps so far mean for the run.
bool OutsideTrainer::may_continue() const {
  if (non_finite_) return false;
  return !waits_here() || (handled_ >= steps() && (pauses_ & bit(PausedBy::core)) == 0);
}

// Whether the rule makes the trainer wait after the steps so far.
bool OutsideTrainer::waits_here() const {
  return options_.in_turn || (options_.wait_every > 0 && steps() % options_.wait_every == 0);
}

// The number of steps of this trainer at which it waits.
std::uint64_t OutsideTrainer::limit() const {
  if (stage_ == Stage::stopped || pauses_ != 0 || non_finite_) return 0;
  std::uint64_t all = options_.last_step;
  if (allowed_samples_ != kNoLimit) {
    const std::uint64_t left = allowed_samples_ - std::min(allowed_samples_, samples());
    const std::uint64_t batch = attachment_.declaration().batch;
    all = std::min(all, steps() + left / batch + (left % batch > 0 ? 1 : 0));
  }
  if (options_.in_turn)
    all = std::min(all, may_continue() && (!boxes_ || boxes_->is_idle()) ? steps() + 1 : steps());
  if (options_.wait_every > 0)
    all = std::min(all, may_continue() ? next_multiple(steps(), options_.wait_every) : steps());
  return all == kNoLimit ? all : all - std::min(all, before_.steps);
}

std::uint64_t OutsideTrainer::reason() const {
  const auto waits = [&] {
    if ((pauses_ & bit(PausedBy::owner)) != 0) return Waits::paused;
    if (non_finite_) return Waits::replica;
    if (stage_ == Stage::stopped || steps() >= options_.last_step) return Waits::last;
    if ((pauses_ & bit(PausedBy::core)) != 0 || options_.in_turn || !may_continue()) return Waits::rule;
    return Waits::last;  // the samples that are left are shared out
  };
  return static_cast<std::uint64_t>(waits());
}

// When the trainer is to ring next, in copy mode with a snapshot.
void OutsideTrainer::plan_ring() {
  const auto last_post = boxes_ ? boxes_->last_post() : Clock::time_point{};
  std::uint64_t next = kNoLimit;
  if (options_.in_turn) {
    next = steps() + 1;
  } else if (options_.pace.kind == Pace::Kind::steps) {
    next = next_multiple(steps(), options_.pace.steps);
  } else if (Clock::now() - last_post >= options_.pace.time / 2) {
    next = steps() + 1;
  }
  if (boxes_ && boxes_->has_news()) next = std::min(next, std::max(steps() + 1, posted_steps_ + kNewsSteps));
  if (options_.wait_every > 0) next = std::min(next, next_multiple(steps(), options_.wait_every));
  if (steps() < options_.last_step) next = std::min(next, options_.last_step);
  if (next != kNoLimit) next -= before_.steps;
  // A value that is not rung for yet stays, unless an earlier one is wanted: each is rung for once.
  if (ring_at_ > rung_ && ring_at_ <= next) return;
  ring_at_ = next;
  attachment_.region().set(PeerWord::ring_at, next);
}

void OutsideTrainer::handled(std::uint64_t steps) {
  handled_ = steps;
  plan();
}

void OutsideTrainer::allow_samples(std::uint64_t samples) {
  allowed_samples_ = samples;
  plan();
}

void OutsideTrainer::pause(PausedBy who) {
  pauses_ = static_cast<std::uint8_t>(pauses_ | bit(who));
  plan();
}

void OutsideTrainer::resume(PausedBy who) {
  pauses_ = static_cast<std::uint8_t>(pauses_ & ~bit(who));
  plan();
}

bool OutsideTrainer::is_paused(PausedBy who) const {
  return (pauses_ & bit(who)) != 0 || (who == PausedBy::owner && !attachment_.is_ready());
}

void OutsideTrainer::discard_steps() {
  if (boxes_) boxes_->abandon();
}

// Another replica is in the arena.
void OutsideTrainer::renew() {
  non_finite_ = false;
  if (attachment_.is_ready()) take_counts(TrainerWord::steps, TrainerWord::samples);
  handled_ = steps();
  ++era_;
  if (boxes_ && attachment_.is_ready()) boxes_->replace(era_);
  attachment_.offer_state(era_);
  attachment_.region().set(PeerWord::era, era_);  // after the reply
  plan();
}

void OutsideTrainer::set_swarm_factor(double factor) {
  swarm_factor_ = factor;
  attachment_.region().set(PeerWord::rate_factor, rate_factor());
}

void OutsideTrainer::tell(const SwarmProgress& progress) {
  Region& region = attachment_.region();
  region.set(PeerWord::swarm_samples, progress.swarm_samples);
  region.set(PeerWord::members_and_index, progress.members | static_cast<std::uint64_t>(progress.share_index)
                                                                 << 32);
  region.set(PeerWord::share_of, std::uint64_t{progress.share_of});
}

// ---- figures and states ----

Duration OutsideTrainer::idle() const {
  return idle_ + (idle_since_ ? Clock::now() - *idle_since_ : Duration{0});
}

std::optional<double> OutsideTrainer::learning_rate() const {
  return known(attachment_.region().get_real(TrainerWord::learning_rate));
}

std::optional<Trainer::Judged> OutsideTrainer::judged() const {
  const Region& region = attachment_.region();
  const auto accuracy = known(region.get_real(TrainerWord::accuracy));
  if (!accuracy || *accuracy < 0 || *accuracy > 1) return std::nullopt;
  return Judged{before_.steps + std::min(region.get(TrainerWord::accuracy_steps), now_.steps), *accuracy};
}

// Samples, optimizer and data are the trainer's own affair.
std::vector<std::string> OutsideTrainer::restore(const training::PeerState& state) {
  before_ = {state.steps, state.samples};
  loss_.shown = state.loss;
  if (state.workers.empty()) return {};
  return {"it was written by a peer with workers of its own, whose state is dropped"};
}

bool OutsideTrainer::capture(Done done) {
  const bool runs = stage_ != Stage::preparing && stage_ != Stage::stopped;
  if (!runs || std::exchange(capturing_, true)) return false;
  auto state = std::make_shared<training::PeerState>();
  state->steps = steps();
  state->samples = samples();
  state->loss = loss_.shown;
  background_.run(
      [this, state] {
        state->parameters.resize(arena_.size());
        arena_.read(0, state->parameters);
      },
      [this, state, done = std::move(done)] {
        capturing_ = false;
        if (stage_ != Stage::stopped) done(state);
      });
  return true;
}

training::PeerState OutsideTrainer::remains() {
  STARLING_CHECK(stage_ == Stage::preparing || stage_ == Stage::stopped);
  training::PeerState state;
  state.parameters.resize(arena_.size());
  arena_.read(0, state.parameters);
  state.steps = steps();
  state.samples = samples();
  state.loss = loss_.shown;
  return state;
}

}  // namespace starling::node
