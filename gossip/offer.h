// An exchange that another peer offers to begin, and what is to become of it.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace starling::gossip {

struct Offer {
  PeerId from;
  std::uint64_t exchange = 0;
  std::uint64_t round = 0;  // the sender's, where the rule counts rounds or pushes
};

enum class Verdict : std::uint8_t { accept, hold, reject };

}  // namespace starling::gossip
