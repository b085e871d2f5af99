// What happens to this peer and its swarm, a sentence each: told to the log, and the latest kept for whoever
// asks. Of one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <spdlog/common.h>

#include "base/ids.h"
#include "gossip/actions.h"

namespace starling::node {

struct Happening {
  std::uint64_t number = 0;  // from 1 on, without gaps
  double seconds = 0;        // since the log began
  std::chrono::system_clock::time_point time;
  spdlog::level::level_enum level = spdlog::level::info;
  std::string what;  // a word: joined, failed, training
  PeerId peer;       // 0: it concerns none
  std::string text;
};

class EventLog {
 public:
  static constexpr std::size_t kKept = 256;

  // What the core notices about the swarm.
  void tell(const gossip::Notice& notice);
  void say(spdlog::level::level_enum level, std::string what, std::string text, PeerId peer = {});

  std::uint64_t latest() const { return next_ - 1; }
  // Those with higher numbers, as far as they are kept, the oldest first.
  std::vector<Happening> since(std::uint64_t number) const;

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::uint64_t next_ = 1;
  std::deque<Happening> kept_;
  // What is waited for, and when it was last said: now and then, not in a storm.
  std::map<std::string, std::chrono::steady_clock::time_point> waiting_;
};

}  // namespace starling::node
