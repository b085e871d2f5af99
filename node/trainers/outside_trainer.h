// Steps that a program outside the process makes (docs/TRAINERS.md), on the daemon's thread: counts them,
// says when the trainer may go on and when it is to ring, and keeps the mailboxes of copy mode. In view mode
// the trainer changes the arena itself, as Hogwild workers do.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include "models/arena.h"
#include "node/trainers/attachment.h"
#include "node/trainers/mailboxes.h"
#include "node/work/background.h"
#include "node/work/trainer.h"
#include "training/runs/experiment/schedule.h"
#include "wire/rules/pace.h"

namespace starling::node {

struct OutsideOptions {
  Pace pace{};           // of the peer's exchanges: a trainer posts as often
  bool in_turn = false;  // after each step the trainer waits for handled()
  std::uint64_t last_step = UINT64_MAX;
  std::uint64_t wait_every = 0;  // it also waits after each step whose number is a multiple of this; 0: none
  Duration grace = std::chrono::seconds(60);  // for another trainer after one has ended without a word
  training::RateSchedule schedule{};          // for the peer's own part of the rate factor
};

// What a trainer may want to know of the swarm.
struct SwarmProgress {
  std::uint64_t swarm_samples = 0;
  std::uint32_t members = 1, share_index = 0, share_of = 1;
};

// Why no more steps will come.
inline constexpr std::string_view kLastStep = "the trainer has made its last step";
std::string nobody_attached(Duration grace);

class OutsideTrainer final : public Trainer {
 public:
  struct Events {
    std::function<void()> stepped;                  // the counts, or what they mean, have changed
    std::function<void(const std::string&)> ended;  // no more steps will come: why, in a sentence
  };
  // The attachment and the background outlive the trainer; `arena` is the region's.
  OutsideTrainer(Attachment& attachment, models::Arena& arena, Background& background,
                 asio::any_io_executor executor, const OutsideOptions& options, Events events);
  ~OutsideTrainer() override;

  void tell(const SwarmProgress& progress);
  // The run has ended, or the peer has left it: the trainer receives the last parameters and these words.
  void say_over(const std::string& why);

  std::vector<std::string> restore(const training::PeerState& state) override;
  void moved() override {}
  void start() override;
  void stop() override;
  void give_back() override { OutsideTrainer::stop(); }
  void allow_samples(std::uint64_t samples) override;
  void pause(PausedBy who) override;
  void resume(PausedBy who) override;
  // Without a trainer the peer makes no steps, as if its owner had paused it.
  bool is_paused(PausedBy who) const override;
  void discard_steps() override;
  void renew() override;
  bool capture(Done done) override;
  training::PeerState remains() override;
  void handled(std::uint64_t steps) override;
  void mixed() override { plan(); }
  void set_swarm_factor(double factor) override;
  double rate_factor() const override { return swarm_factor_ * own_factor(options_.schedule, steps() + 1); }
  std::uint64_t steps() const override { return before_.steps + now_.steps; }
  std::uint64_t samples() const override { return before_.samples + now_.samples; }
  Duration idle() const override;
  std::optional<double> loss() const override { return loss_.shown; }
  bool non_finite() const override { return non_finite_; }
  std::optional<double> spread() const override { return std::nullopt; }
  std::optional<std::string> failure() const override { return std::nullopt; }
  std::optional<double> learning_rate() const override;
  std::optional<Judged> judged() const override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Counts {
    std::uint64_t steps = 0, samples = 0;
  };

  void begin();
  void rang();
  void absorbed(Mailboxes::Post post);
  void gone();
  void await_another();
  void end(const std::string& why);
  asio::awaitable<void> watch();
  // Where each step is waited for, a step counts when the arena has it.
  bool counts_posts() const { return boxes_ && (options_.in_turn || options_.wait_every > 0); }
  void take_counts(TrainerWord steps_word, TrainerWord samples_word);
  void plan();
  void plan_ring();
  bool may_continue() const;
  bool waits_here() const;
  std::uint64_t limit() const;
  std::uint64_t reason() const;

  Attachment& attachment_;
  models::Arena& arena_;
  Background& background_;
  const OutsideOptions options_;
  Events events_;
  std::unique_ptr<Mailboxes> boxes_;  // null in view mode
  asio::steady_timer watch_timer_, grace_timer_;

  Counts before_{};  // of earlier lives and earlier trainers
  Counts now_{};     // of this trainer
  struct Loss {
    std::optional<double> shown{};
    bool warned = false;
    void take(double loss, std::uint64_t steps);
  } loss_;
  double swarm_factor_ = 1;
  enum class Stage : std::uint8_t { preparing, running, said_bye, ended, stopped } stage_ = Stage::preparing;
  std::uint8_t pauses_ = 0;
  bool non_finite_ = false, capturing_ = false;
  std::uint64_t era_ = 0;
  std::uint64_t allowed_samples_ = UINT64_MAX, handled_ = 0;
  std::uint64_t posted_steps_ = 0;                      // at the latest post
  std::uint64_t allowed_ = 0, ring_at_ = 0, rung_ = 0;  // the words, and the value that was rung for last
  Duration idle_{0};
  std::optional<Clock::time_point> idle_since_;
};

}  // namespace starling::node
