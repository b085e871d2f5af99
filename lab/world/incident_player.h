// Plays a schedule of incidents in a virtual world: breaks links, pauses machines, ends and restarts peers.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "lab/world/faults.h"
#include "lab/world/surroundings.h"
#include "lab/world/virtual_peer.h"

namespace starling::lab {

class IncidentPlayer {
 public:
  using Peers = std::vector<std::unique_ptr<VirtualPeer>>;

  // Both must outlive the player.
  IncidentPlayer(Surroundings& world, const Peers& peers) : world_(world), peers_(peers) {}

  // Schedules the incidents of the world's options. Called once, when all peers are there.
  void begin();

 private:
  void play(const Incident& incident);
  void follow(std::size_t k);

  void play_one(const Crash& crash);
  void play_one(const Leave& leave);
  void play_one(const Pause& pause);
  void play_one(const Slow& slow);
  void play_one(const SlowDisk& disk);
  void play_one(const Drift& drift);
  void play_one(const Poison& poison);
  void play_one(const Loss& loss);
  void play_one(const Cut& cut);
  void play_one(const Partition& partition);
  void play_one(const Clog& clog);
  void play_one(const PoorLinks& links);
  void play_one(const Reset& reset);
  void play_one(const HalfOpen& half_open);
  void play_one(const Rewiring& rewiring);
  void play_one(const Mutation& mutation);

  Mishaps& mishaps(std::uint32_t machine) { return peers_[machine]->mishaps(); }

  Surroundings& world_;
  const Peers& peers_;
  std::vector<std::optional<Incident>> upcoming_;  // the next of each recurring incident
};

}  // namespace starling::lab
