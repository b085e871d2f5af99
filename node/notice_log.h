// Tells the log what the core notices about the swarm, one sentence each.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "gossip/actions.h"

namespace starling::node {

class NoticeLog {
 public:
  void tell(const gossip::Notice& notice);

 private:
  // What is waited for, and when it was last said: now and then, not in a storm.
  std::map<std::string, std::chrono::steady_clock::time_point> waiting_;
};

}  // namespace starling::node
