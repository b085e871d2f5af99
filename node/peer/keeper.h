// What a peer keeps on disk while it runs: the peer cache, checkpoints, and snapshots of the replica. Used by
// the daemon's thread; the disk's thread writes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/steady_timer.hpp>

#include "node/keep/checkpointer.h"
#include "node/keep/peer_cache.h"
#include "node/peer/listening.h"
#include "node/peer/lives.h"
#include "node/peer/teller.h"

namespace starling::node {

class Keeper {
 public:
  Keeper(Started& started, Listening& listening, const Lives& lives, const Teller& teller)
      : started_(started), listening_(listening), lives_(lives), teller_(teller), cache_timer_(started.io) {}

  // Whether the cache or the checkpoint has a swarm.
  bool remembers_swarm() const { return !listening_.remembered().members.empty(); }
  void add_contacts(gossip::PeerOptions& peer) const;  // its members
  // Makes the core search for that swarm, and begin its run again if no member answers.
  void search_swarm(gossip::PeerOptions& peer) const;

  // Writes the cache from now on, whenever it has changed.
  void keep_cache();
  void write_cache();

  void leave_snapshot_if_due();
  void checkpoint_if_due();
  void write_last_checkpoint();  // REQUIRES: the trainer has stopped

 private:
  CachedSwarm swarm() const;
  CheckpointFacts checkpoint_facts() const;
  void write_checkpoint(std::function<training::PeerState()> state);
  void report_checkpoint(const Result<std::string>& written);

  Started& started_;
  Listening& listening_;
  const Lives& lives_;
  const Teller& teller_;
  asio::steady_timer cache_timer_;
  std::size_t cache_writes_ = 0;  // under way
  bool cache_failing_ = false;    // the last write of the cache failed, and has been logged
  CheckpointNews checkpoint_news_;
};

}  // namespace starling::node
