// What a peer finds on disk when it starts: the peer cache, and the checkpoint to resume from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "node/front/event_log.h"
#include "node/keep/checkpointer.h"
#include "node/keep/peer_cache.h"
#include "node/peer/options.h"
#include "training/runs/experiment/experiment.h"

namespace starling::node {

struct Remembered {
  std::unique_ptr<PeerCache> cache{};  // null: the options name no folder for it
  wire::Manifest manifest{};           // of the swarm in the cache or the checkpoint
  std::vector<CachedPeer> members{};   // of that swarm, without this peer itself; empty: there is none
  std::optional<Resumption> resumed{};
  gossip::EarlierLives earlier{};  // what the checkpoint says, or a trainer whose peer was lost
  training::Experiment
      experiment;  // that this peer begins: the options', or the checkpoint's with their changes

  // Samples of this life: the trainer also counts those of earlier ones.
  std::uint64_t of_this_life(std::uint64_t samples) const {
    return samples - std::min(samples, earlier.samples);
  }
  // The order of the data of the peer `name` without a slot: with the run's seed, it determines the batches.
  std::uint64_t order_of(const std::string& name) const { return resumed ? resumed->order : hash64(name); }
};

// Reads the cache, and finds the checkpoint.
Result<Remembered> remember(const DaemonOptions& options, EventLog& events);

}  // namespace starling::node
