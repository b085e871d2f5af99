// What a peer reports about itself: to its launcher, to the members, over HTTP, to TensorBoard, to the
// service manager and to the log. Of the daemon's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/front/board.h"
#include "node/front/front.h"
#include "node/front/status.h"
#include "node/launch/notify.h"
#include "node/launch/process.h"
#include "node/peer/activity.h"
#include "node/peer/parts.h"
#include "node/work/background.h"
#include "node/work/self_judge.h"
#include "training/experiment/control.h"
#include "wire/messages.h"

namespace starling::node {

class Teller {
 public:
  Teller(PeerParts& parts, Process& process, Background& disk, asio::any_io_executor executor)
      : parts_(parts), process_(process), disk_(disk), self_judge_(std::move(executor)) {}

  // Opens TensorBoard's folder, if one is given.
  Status open_board();
  // The front that shows this peer from now on.
  void serve(Front& front) { front_ = &front; }
  // The address of this peer's page for other members; empty: it has none. A front that listens everywhere is
  // named by the host that members dial.
  std::string http_address() const;
  ServiceNotifier& manager() { return manager_; }

  // What happens, for the time lines and the members' table.
  void begin_training();
  void begin_serving() { training_start_ = Clock::now(); }
  void stop_training();
  void end_training() { training_end_ = Clock::now(); }
  void begin_exchange(std::uint64_t exchange, PeerId partner);
  void advance_exchange(std::uint64_t exchange);
  void end_exchange(std::uint64_t exchange);
  void begin_answer(PeerId from, std::uint64_t exchange);
  void end_answer(PeerId from, std::uint64_t exchange);

  bool has_begun() const { return training_start_.has_value(); }
  bool has_trained() const { return training_start_ || training_end_; }

  // Reports and logs. `send_vitals` gets the figures for the members when they are due.
  void tick(const std::function<void(const wire::Vitals&)>& send_vitals);
  wire::Vitals measure_vitals();
  void account_time();

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
  Process& process_;
  Background& disk_;
  Front* front_ = nullptr;
  std::unique_ptr<Board> board_;
  ServiceNotifier manager_;
  ActivityClock activity_;
  std::optional<Clock::time_point> training_start_, training_end_;
  PeerId latest_partner_{};
  std::map<std::uint64_t, PeerId> exchanging_;  // the partners of this peer's own exchanges
  // The recent speed: since the last measurement.
  Clock::time_point measured_at_ = Clock::now();
  std::uint64_t measured_samples_ = 0;
  double recent_samples_per_second_ = 0;
  SelfJudge self_judge_;
};

}  // namespace starling::node
