// The parts of a virtual world: machines, network, rule and incidents.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gossip/peer.h"
#include "lab/world/faults.h"
#include "lab/world/learner.h"
#include "lab/world/sabotage.h"
#include "lab/world/virtual_network.h"
#include "lab/world/watcher.h"

namespace starling::lab {

struct MachineOptions {
  std::string name;
  Instant start{};            // of its process
  std::uint32_t workers = 1;  // Hogwild workers
  Duration step{0};           // mean time of one step of one worker, without slowdown
  double step_spread = 0;     // 0: all steps take equally long; 1: exponentially distributed
};

// A function that returns the next of some incidents, ordered by beginning; nullopt after the last.
using Recurring = std::function<std::optional<Incident>()>;

struct WorldOptions {
  std::uint64_t seed = 1;
  NetworkOptions network;
  std::size_t arena_floats = 0;
  training::MixOptions mix;     // the rule's arithmetic; must name the rule of `rules`
  std::size_t chunk_cells = 4;  // cells in a chunk
  std::size_t window = 3;       // chunks sent and not yet answered
  wire::Manifest manifest;
  std::optional<gossip::RunRules> rules;  // of the manifest; must be set
  gossip::PeerOptions peer;               // limits and intervals, the same for all
  // The first machine to start begins the run, the others join through it. If several start first, `beginner`
  // begins if it is one of them, else the one with the lowest index.
  std::vector<MachineOptions> machines;
  std::uint32_t beginner = 0;
  std::vector<Incident> incidents;
  std::vector<Recurring> recurring;  // the next incident is drawn when the previous one begins
  // How often a machine writes the addresses of the members it knows; 0: never. A restarted machine that has
  // such addresses joins through them, and begins the run again if no member answers within `begin_after`.
  Duration cache_interval{0};
  Duration begin_after = std::chrono::seconds(20);
  Watcher* watcher = nullptr;    // may be null; must outlive the world
  Sabotage* sabotage = nullptr;  // may be null; must outlive the world

  std::size_t chunk_floats() const { return mix.cell_floats * chunk_cells; }
  std::size_t chunks() const { return (arena_floats - 1) / chunk_floats() + 1; }
};

// Makes the learner of a machine, for each of its instances.
using MakeLearner = std::function<std::unique_ptr<Learner>(std::uint32_t machine)>;

}  // namespace starling::lab
