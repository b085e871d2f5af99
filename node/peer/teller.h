// What a peer reports about itself: to its launcher, to the members, over HTTP, to TensorBoard, to the
// service manager and to the log. Used by the daemon's thread only.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "node/front/status.h"
#include "node/launch/notify.h"
#include "node/peer/listening.h"
#include "node/peer/lives.h"
#include "node/peer/progress.h"
#include "node/work/self_judge.h"
#include "training/runs/experiment/control.h"

namespace starling::node {

// How a peer divides its time since training began among computing, exchanging and waiting, for the
// launcher's time lines (training/runs/records/timeline.h). The daemon's thread reports every change.
class ActivityClock {
 public:
  struct Sums {
    Duration computing{0}, exchanging{0}, waiting{0};
  };

  // `now` never decreases; `idle` is the total time in which all workers were idle (Trainer::idle).
  void account(Instant now, Duration idle) {
    const Duration time = now - std::exchange(since_, now);
    const Duration stood = std::clamp(idle - std::exchange(idle_, idle), Duration{0}, time);
    const Duration computed = training_ ? time - stood : Duration{0};
    sums_.computing += computed;
    if (owns_.empty() && answers_.empty()) {
      sums_.waiting += time - computed;
    } else {
      sums_.exchanging += time;
    }
  }

  // Each of the following is called after account().
  void train(bool on) { training_ = on; }
  // `waits`: training is paused until the partner's first message, which advanced() reports.
  void began(std::uint64_t exchange, bool waits) {
    if (!waits) owns_.insert(exchange);
  }
  void advanced(std::uint64_t exchange) { owns_.insert(exchange); }
  void ended(std::uint64_t exchange) { owns_.erase(exchange); }
  void answers(PeerId from, std::uint64_t exchange) { answers_.emplace(from, exchange); }
  void answered(PeerId from, std::uint64_t exchange) { answers_.erase({from, exchange}); }

  const Sums& sums() const { return sums_; }

 private:
  Sums sums_;
  Instant since_{};
  Duration idle_{0};
  bool training_ = false;
  std::set<std::uint64_t> owns_;                        // under way
  std::set<std::pair<PeerId, std::uint64_t>> answers_;  // accepted
};

class Teller {
 public:
  Teller(Started& started, Listening& listening, const Lives& lives, Drive drive)
      : started_(started),
        listening_(listening),
        lives_(lives),
        drive_(std::move(drive)),
        self_judge_(started.io.get_executor()) {}

  // The front listens here.
  void set_http(const Address& address) { http_ = address; }
  // The address of this peer's page for other members; empty: it has none. If the front listens on all
  // interfaces, the host is the one that members dial.
  std::string http_address() const;
  ServiceNotifier& manager() { return manager_; }

  // Events for the time lines and the members' table.
  void begin_training();
  void begin_serving() { training_start_ = Clock::now(); }
  void end_training();
  void begin_exchange(std::uint64_t exchange, PeerId partner);
  PeerId end_exchange(std::uint64_t exchange);  // its partner; 0: it was not under way
  // Accounts the time up to now, before a change that the caller makes.
  ActivityClock& account_time();

  bool has_begun() const { return training_start_.has_value(); }
  bool has_trained() const { return training_start_ || training_end_; }

  // Reports and logs; passes the core the figures for the members when they are due.
  void tick();
  std::string state() const;             // "training", "finished"
  SwarmProgress swarm_progress() const;  // for a trainer outside the process
  gossip::VitalsMeasured measure_vitals();
  void warn_of_restarts();

  training::PeerReport report(training::PeerReport::Kind kind) const;
  // REQUIRES: the core has begun, for both.
  PeerStatus status() const;
  std::vector<MemberStatus> members() const;
  // How far the run is and how long it still takes; empty before training begins.
  std::string progress() const;
  // Logs the connections that were rejected or broke, and the chunks that were not mixed, by reason.
  void log_faults() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string condition() const;
  bool is_paused() const { return lives_.equipped && lives_.equipped->trainer->is_paused(PausedBy::owner); }
  // In the last seconds; 0 unless the peer trains.
  double speed(const training::PeerReport& its) const;
  std::uint64_t swarm_samples(std::uint64_t own) const;
  void judge_own_replica();
  void draw_board(bool is_last);

  Started& started_;
  Listening& listening_;
  const Lives& lives_;
  const Drive drive_;
  Address http_{};  // empty: the peer serves no HTTP
  ServiceNotifier manager_;
  ActivityClock activity_;
  std::optional<Clock::time_point> training_start_, training_end_;
  PeerId latest_partner_{};
  std::map<std::uint64_t, PeerId> exchanging_;  // the partners of this peer's own exchanges
  // For the speed since the last measurement.
  Clock::time_point measured_at_ = Clock::now();
  std::uint64_t restarts_ = 0;  // of push-sum, that were reported
  Clock::time_point restarts_warned_{};
  std::uint64_t measured_samples_ = 0;
  std::optional<double> recent_samples_per_second_;
  SelfJudge self_judge_;
  RunProgress progress_;
};

}  // namespace starling::node
