// Copies a member's parameters, for a joiner's first replica and for one that was lost. A donor is drawn from
// the live members that have a replica. One that stalls, or becomes much slower than an earlier one was, is
// replaced; the copy resumes where it stopped.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gossip/run_state.h"

namespace starling::gossip {

class Copying {
 public:
  explicit Copying(RunState& run) : run_(run), delay_(run.options.state_retry_min) {}

  // Chooses a donor now.
  void start(std::vector<Action>& out);
  // Chooses a donor after the delay, and copies from the first chunk on.
  void restart(Duration delay);
  // Ends the copy under way and chooses no other donor.
  void stop(std::vector<Action>& out);
  void tick(std::vector<Action>& out);
  // This peer woke `late` after its deadline: the donor gets that much more time.
  void slept(Duration late);

  void advanced(const StateAdvanced& advanced, std::vector<Action>& out);
  void lost(const StateLost& lost, std::vector<Action>& out);
  // Returns false if no copy is under way.
  bool arrived();

  // When the donor is replaced unless it advances; nullopt: none was chosen.
  std::optional<Instant> deadline() const { return copy_ ? std::optional(copy_->deadline) : std::nullopt; }
  Instant next_deadline() const;

 private:
  struct Copy {
    PeerId donor;
    Instant deadline;  // extended by every chunk
    std::uint64_t chunks = 0;
    Instant window_began;  // the rate is measured over a window
    std::uint64_t window_chunks = 0;
  };

  std::vector<const wire::Member*> donors() const;
  void drop_donor(std::vector<Action>& out);

  RunState& run_;
  std::optional<Copy> copy_;
  bool afresh_ = false;   // the next copy keeps no chunk
  double best_rate_ = 0;  // chunks per second, over all donors
  PeerId last_donor_;     // replaced: chosen again only if there is no other
  Duration delay_;
  Instant next_request_ = kNever;
};

}  // namespace starling::gossip
