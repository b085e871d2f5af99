// The events of this peer and its swarm, a sentence each: they are logged, and the latest ones are kept for
// the HTTP interface. Used by one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <spdlog/common.h>

#include "base/ids.h"
#include "gossip/actions.h"
#include "node/front/log_limiter.h"

namespace starling::node {

struct Happening {
  std::uint64_t number = 0;  // from 1, without gaps
  double seconds = 0;        // since this object was made
  std::chrono::system_clock::time_point time;
  spdlog::level::level_enum level = spdlog::level::info;
  std::string what;  // one word: joined, failed, training
  PeerId peer;       // 0: none
  std::string text;
};

class EventLog {
 public:
  static constexpr std::size_t kKept = 256;

  // The core's notices about the swarm. The same one about the same member is told again after 10 s at the
  // earliest, with the number of those in between. Returns the sentence; empty if it was not told.
  std::string tell(const gossip::Notice& notice);
  // The swarm follows this topology from now on. Members can change it as often as they like, so at most nine
  // lines are told in 10 s.
  void rewired(const std::string& topology);
  void say(spdlog::level::level_enum level, std::string what, std::string text, PeerId peer = {});

  std::uint64_t latest() const { return next_ - 1; }
  // The kept events with higher numbers, oldest first.
  std::vector<Happening> since(std::uint64_t number) const;

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::uint64_t next_ = 1;
  std::deque<Happening> kept_;
  LogLimiter waiting_{64, std::chrono::seconds(5)};    // by what the peer waits for
  LogLimiter notices_{128, std::chrono::seconds(10)};  // by word and member
  LogLimiter rewired_{8, std::chrono::seconds(10)};    // by topology
};

}  // namespace starling::node
