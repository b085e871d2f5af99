// What a peer does when its own replica holds values that are not finite: it exchanges nothing, copies a
// member's replica, and trains on. If the replica is lost again soon after a copy, the peer waits before the
// next, twice as long each time, and after several such copies fails: then its own steps diverge. It also
// fails if no member has a replica to copy for a while.
#pragma once

#include <cstdint>
#include <vector>

#include "gossip/copying.h"
#include "gossip/run_state.h"

namespace starling::gossip {

class Recovery {
 public:
  Recovery(RunState& run, Copying& copying) : run_(run), copying_(copying) {}

  // The replica is lost. REQUIRES: !run.diverged.
  void begin();
  // The copy is in place.
  void complete();
  // Fails the peer if there is no hope left.
  void tick(std::vector<Action>& out);
  Instant next_deadline() const { return deadline_; }

 private:
  RunState& run_;
  Copying& copying_;
  Instant deadline_ = kNever;
  std::uint32_t copies_ = 0;           // in a row after each of which the replica was soon lost
  std::uint64_t recovered_steps_ = 0;  // this peer's own when the latest copy was in place
};

}  // namespace starling::gossip
