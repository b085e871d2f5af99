// What a peer keeps on disk while it runs: the peer cache, checkpoints, and snapshots of the replica; and
// what it finds there when it starts. Used by the daemon's thread; the disk's thread writes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/steady_timer.hpp>

#include "node/keep/checkpointer.h"
#include "node/keep/peer_cache.h"
#include "node/peer/parts.h"
#include "node/peer/teller.h"

namespace starling::node {

class Keeper {
 public:
  Keeper(PeerParts& parts, const Teller& teller) : parts_(parts), teller_(teller), cache_timer_(parts.io) {}

  // Reads the cache, and finds the checkpoint to resume from.
  Status open();
  // Locks the folder for new checkpoints. REQUIRES: the peer has its name and address.
  Status open_checkpoints();

  // Whether the cache or the checkpoint has a swarm.
  bool remembers_swarm() const { return !remembered_.empty(); }
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
  Status open_cache();
  Status find_checkpoint();
  CheckpointFacts checkpoint_facts() const;
  void write_checkpoint(std::function<training::PeerState()> state);
  void report_checkpoint(const Result<std::string>& written);

  PeerParts& parts_;
  const Teller& teller_;
  std::unique_ptr<PeerCache> cache_;
  asio::steady_timer cache_timer_;
  std::size_t cache_writes_ = 0;  // under way
  bool cache_failing_ = false;    // the last write of the cache failed, and has been logged
  wire::Manifest remembered_manifest_;
  std::vector<CachedPeer> remembered_;  // without this peer itself, once it has its address
  std::unique_ptr<Checkpointer> checkpointer_;
  CheckpointNews checkpoint_news_;
};

}  // namespace starling::node
