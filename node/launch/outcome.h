// How a peer's process ended.
#pragma once

#include <string>

namespace starling::node {

struct PeerOutcome {
  int exit_code = 0;  // 0 finished or left, 1 the run failed, 2 bad input
  std::string error;  // one sentence if exit_code is not 0
};

}  // namespace starling::node
