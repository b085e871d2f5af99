// What tests, checkers and result writers read of one machine of a virtual world.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gossip/peer.h"
#include "lab/world/watcher.h"
#include "models/arena.h"
#include "training/exchange/mixer.h"

namespace starling::lab {

struct MachineView {
  const std::string& name;
  MachineState state;
  const models::Arena& arena;
  std::uint64_t steps, samples;  // of all its instances
  const gossip::ExchangeCounts& exchanges;
  const training::MixCounters& mixed;  // of the latest instance
  std::uint64_t half_applied_chunks, bytes_sent;
  double loss;
  std::optional<double> learning_rate;        // of the latest step; nullopt before the first
  double slow;                                // factor at this moment
  const std::vector<float>& before_settling;  // empty until its training ended
  bool has_parameters;                        // began the run or has copied them, and has not lost them
  wire::Phase phase;
  PeerId id;                             // of the latest instance
  const gossip::Membership* membership;  // null before its start
  std::optional<Instant> training_since;
  const topologies::Topology* topology;  // that it follows; null before it is prepared
  const gossip::Patience* patience;      // null before its start
  std::uint64_t round;
  const gossip::ExchangeCounts& earlier_exchanges;  // of its former instances
  const training::MixCounters& earlier_mixed;       // of its former instances, the refused chunks only
};

}  // namespace starling::lab
