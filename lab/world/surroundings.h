// What all machines of a virtual world share: time, the network, chance, the directory of machines, and those
// who watch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "lab/world/block.h"
#include "lab/world/event_queue.h"
#include "lab/world/virtual_network.h"
#include "lab/world/world_options.h"

namespace starling::lab {

class VirtualMachine;

struct Surroundings {
  Surroundings(WorldOptions o, MakeLearner make, std::vector<float> first, NetworkHost& host);

  Instant now() const { return queue.now(); }
  // A new id, which is entered in the directory.
  PeerId new_id(std::uint32_t machine);
  // Adds to the hash that tells two runs apart.
  void trace(std::uint32_t machine, std::uint64_t kind, std::uint64_t detail);

  WorldOptions options;
  MakeLearner make_learner;
  std::vector<float> first_parameters;
  Random random, ids, spoiling;
  EventQueue queue;
  VirtualNetwork network;
  Watcher& watcher;    // one that ignores everything if the options name none
  Sabotage* sabotage;  // may be null
  BlockStore blocks;
  std::vector<Mutation> mutations;      // stretches of flipped bits, current and past
  std::vector<gossip::Action> actions;  // scratch of the driver's loop

  std::vector<VirtualMachine*> machines;
  std::unordered_map<std::string, std::uint32_t> by_host;
  std::unordered_map<std::uint64_t, std::uint32_t> by_id;  // instances, present and past
  std::uint32_t beginner = 0;                              // begins the run
  std::size_t open = 0;                                    // machines that run or wait for their first start
  std::size_t exchanges_under_way = 0;
  std::uint64_t samples = 0;
  std::uint64_t trace_hash = 0;
  std::optional<Instant> training_began;
};

}  // namespace starling::lab
