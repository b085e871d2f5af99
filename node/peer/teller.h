// What a peer reports about itself: to its launcher, to the members, over HTTP, to TensorBoard, to the
// service manager and to the log. Used by the daemon's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/front/board.h"
#include "node/front/status.h"
#include "node/launch/notify.h"
#include "node/launch/outcome.h"
#include "node/peer/activity.h"
#include "node/peer/parts.h"
#include "node/work/self_judge.h"
#include "training/experiment/control.h"

namespace starling::node {

class Teller {
 public:
  explicit Teller(PeerParts& parts) : parts_(parts), self_judge_(parts.io.get_executor()) {}

  // Opens TensorBoard's folder, if the options name one. An outcome: why that failed.
  std::optional<PeerOutcome> open_board();
  // The address of this peer's page for other members; empty: it has none. If the front listens on all
  // interfaces, the host is the one that members dial.
  std::string http_address() const;
  ServiceNotifier& manager() { return manager_; }

  // Events for the time lines and the members' table.
  void begin_training();
  void begin_serving() { training_start_ = Clock::now(); }
  void end_training() { training_end_ = Clock::now(); }
  void begin_exchange(std::uint64_t exchange, PeerId partner);
  void end_exchange(std::uint64_t exchange);
  // Accounts the time up to now, before a change that the caller makes.
  ActivityClock& account_time();

  bool has_begun() const { return training_start_.has_value(); }
  bool has_trained() const { return training_start_ || training_end_; }

  // Reports and logs; passes the core the figures for the members when they are due.
  void tick();
  gossip::VitalsMeasured measure_vitals();

  training::PeerReport report(training::PeerReport::Kind kind) const;
  // REQUIRES: the core has begun, for both.
  PeerStatus status() const;
  std::vector<MemberStatus> members() const;
  // Logs the connections that were rejected or broke, and the chunks that were not mixed, by reason.
  void log_faults() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string state() const;
  void judge_own_replica();
  void draw_board();

  PeerParts& parts_;
  std::unique_ptr<Board> board_;
  ServiceNotifier manager_;
  ActivityClock activity_;
  std::optional<Clock::time_point> training_start_, training_end_;
  PeerId latest_partner_{};
  std::map<std::uint64_t, PeerId> exchanging_;  // the partners of this peer's own exchanges
  // For the speed since the last measurement.
  Clock::time_point measured_at_ = Clock::now();
  std::uint64_t measured_samples_ = 0;
  double recent_samples_per_second_ = 0;
  SelfJudge self_judge_;
};

}  // namespace starling::node
