// Copies a member's parameters, for a joiner's first replica and for one that was lost. A donor is drawn from
// the live members that have a replica. One that stalls, or becomes much slower than an earlier one was, is
// replaced; the copy resumes where it stopped. A joiner fails if no member is left that has parameters, or
// may get some.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gossip/run_state.h"

namespace starling::gossip {

class Copying {
 public:
  explicit Copying(RunState& run) : run_(run), delay_(run.options.state_retry.min) {}

  // Chooses a donor now.
  void start(Actions& out);
  // Chooses a donor after the delay, and copies from the first chunk on.
  void restart(Duration delay);
  // Ends the copy under way and chooses no other donor.
  void stop(Actions& out) {
    if (std::exchange(copy_, std::nullopt)) out.push_back(AbortFetch{});
    next_request_ = kNever;
  }
  void tick(Actions& out);
  // This peer woke `late` after its deadline: the donor gets that much more time.
  void slept(Duration late) {
    if (copy_) copy_->deadline = copy_->deadline + late;
  }

  void advanced(const StateAdvanced& advanced, Actions& out);
  void lost(const StateLost& lost, Actions& out);
  // Whether there is a member to copy from.
  bool has_donor() const { return !donors().empty(); }
  // Returns false if no copy is under way.
  bool arrived() {
    if (copy_) last_donor_ = copy_->donor;  // the next copy is another member's
    return std::exchange(copy_, std::nullopt).has_value();
  }

  // When the donor is replaced unless it advances; nullopt: none was chosen.
  std::optional<Instant> deadline() const { return copy_ ? std::optional(copy_->deadline) : std::nullopt; }
  Instant next_deadline() const { return copy_ ? std::min(next_request_, copy_->deadline) : next_request_; }

 private:
  struct Copy {
    PeerId donor;
    Instant deadline;  // extended by every chunk
    std::uint64_t chunks = 0;
    Instant window_began;  // the rate is measured over a window
    std::uint64_t window_chunks = 0;
  };

  // Whether a donor may appear by itself: a live member has parameters but no time for this peer, or one
  // prepares its training, as far as this peer knows. If a member that had parameters is gone, those that
  // still have none probably wait for them, too.
  enum class Hope : std::uint8_t { some, gone, unusable };

  std::vector<const wire::Member*> donors() const;
  Hope hope() const;
  void wait(Actions& out);
  void drop_donor(Actions& out);

  RunState& run_;
  std::optional<Copy> copy_;
  bool afresh_ = false;   // the next copy keeps no chunk
  double best_rate_ = 0;  // chunks per second, over all donors
  PeerId last_donor_;     // chosen again only if no other exists
  bool refused_ = false;  // a donor failed since the last restart()
  std::string why_lost_;  // the latest copy that failed
  Duration delay_;
  Instant next_request_ = kNever;
  bool waits_ = false;           // no member had parameters
  Instant give_up_at_ = kNever;  // without a change; kNever while there is hope
  std::uint64_t version_ = 0;    // of the membership then
};

// What a peer does when its own replica is lost, because it holds values that are not finite or has become
// useless (Health): it exchanges nothing, copies a member's replica, and trains on. If the replica is lost
// again soon after a copy, the peer waits before the next, twice as long each time, and after several such
// copies fails: then its own steps diverge. It also fails if no member has a replica to copy for a while.
class Recovery {
 public:
  Recovery(RunState& run, Copying& copying) : run_(run), copying_(copying) {}

  // The replica is lost for the reason `why`; `finite`: it has become useless. REQUIRES: !run.diverged.
  void begin(bool finite, std::string why);
  // The copy is in place.
  void complete() {
    run_.diverged = false;
    deadline_ = kNever;
    if (!finite_) ++copies_;
    recovered_steps_ = run_.steps();
  }
  // Fails the peer if no hope is left.
  void tick(Actions& out);
  Instant next_deadline() const { return deadline_; }

 private:
  RunState& run_;
  Copying& copying_;
  Instant deadline_ = kNever;
  bool finite_ = false;
  std::string why_;
  std::uint32_t copies_ = 0;           // in a row, each soon followed by the loss of the replica
  std::uint64_t recovered_steps_ = 0;  // this peer's own when the latest copy was in place
};

}  // namespace starling::gossip
