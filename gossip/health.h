// Whether this peer's replica has become useless although its values are finite: lies of a partner that the
// rule does not contain have moved it, or it diverged by itself. A peer with such a replica would train on to
// the end, and spoil others. Two signs count: the loss of its own steps has been far above its best for a
// while, or most of its partners refuse exchanges because it sent them unusable parameters. It then copies
// another member's replica (Recovery). If that does not help, it waits longer before the next copy.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/time.h"

namespace starling::gossip {

class Health {
 public:
  // A loss, in nats, is far above the best if it exceeds this multiple of it. Below kLeast all losses are
  // equally good: small ones vary by large factors.
  static constexpr double kTimes = 4, kLeast = 1;
  // A spike of the loss is shorter; a quarantine is as long.
  static constexpr Duration kPatience = std::chrono::minutes(1);
  // Between two copies, doubled while they do not help.
  static constexpr Duration kPause = std::chrono::minutes(2), kLongestPause = std::chrono::hours(24);

  // The loss of recent own steps, in nats.
  void measured(Instant now, double loss);
  // Whether the latest loss was about as good as the best.
  bool is_good() const { return loss_ <= kTimes / 2 * best_; }
  // How an exchange that this peer began with this partner ended.
  void ended(Instant now, PeerId partner, bool quarantined);
  // Why the replica is useless, in words; nullopt: it is not, or the latest copy was not long ago.
  std::optional<std::string> complaint(Instant now) const;
  // The replica is replaced.
  void replaced(Instant now);

 private:
  struct Verdict {
    Instant at;
    bool quarantined;
  };

  double best_ = 0, loss_ = 0;          // best_: at least kLeast; 0: none was measured
  std::optional<Instant> high_since_;   // the loss has been far above the best
  std::map<PeerId, Verdict> verdicts_;  // the latest of each partner, of the last kPatience
  Duration pause_ = kPause;
  Instant not_before_{};
};

}  // namespace starling::gossip
