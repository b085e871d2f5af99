// Statement 14: under a rule with a barrier, members that live and take part in no exchange delay each other
// peer by a bounded sum. A peer passes over a silent partner after a limit, for pauses that double
// (gossip/meeting/waiting.h): so the waits of T seconds add up to some limits times the logarithm of T.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lab/world/world.h"

namespace starling::lab {

class WaitChecks {
 public:
  // Statement 14 is checked only in worlds in which nothing happens but silence, and for the other machines.
  void watch(const World& world);
  void started(std::uint32_t machine) { of_[machine] = {}; }
  // A violation as a sentence.
  std::optional<std::string> action(std::uint32_t machine, const gossip::Action& action);

  // Until then a peer may not wait for one that it has passed over: its pauses follow one another, and each
  // is at most twice as long as the last.
  Instant awaited_again() const { return awaited_again_; }

  // How long a machine with these rounds may wait in all for others that are silent for `silent`.
  static Duration bound(Duration round, Duration longest_limit, Duration silent);

 private:
  struct Waits {
    std::optional<Instant> since{};  // training pauses for a round or a push
    Duration sum{0};                 // without what an ordinary round takes
  };

  const World* world_ = nullptr;
  bool checks_ = false;
  Instant first_ = kNever, awaited_again_{};  // the first time that a peer was passed over
  Duration round_{0};                         // the longest ordinary one
  std::vector<Duration> bounds_;              // by machine
  std::vector<Waits> of_;
};

}  // namespace starling::lab
