// What a peer remembers of its swarm in its state folder, DIR/peers.json, so that it finds the others again
// after a crash or a blackout: the run's manifest and where its members listened.
//
// The file is replaced as a whole, so a peer that is killed at any moment leaves the old or the new one. A
// folder belongs to one running peer at a time (DIR/lock). What cannot be used is kept as
// DIR/peers.json.damaged, and the peer goes on without.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "gossip/membership.h"
#include "training/experiment/experiment.h"
#include "wire/messages.h"

namespace starling::node {

struct CachedPeer {
  std::string name;
  Address address;
  friend bool operator==(const CachedPeer&, const CachedPeer&) = default;
};

struct CachedSwarm {
  static constexpr std::size_t kMembersMax = 1024;

  std::string swarm;
  wire::Manifest manifest;
  std::vector<CachedPeer> members;  // of others; the likeliest to be there first
  friend bool operator==(const CachedSwarm&, const CachedSwarm&) = default;
};

// Whom to remember: by their chance to be met again those that live, those that failed, and those remembered
// `before` that nobody has heard of since; none that left, nobody twice, not the peer itself.
std::vector<CachedPeer> peers_to_cache(const gossip::Membership& membership,
                                       const std::vector<CachedPeer>& before);

// The file's text. REQUIRES: at most kMembersMax members.
std::string to_json(const CachedSwarm& cached);
// Refuses whatever a peer would not have written, with a sentence.
Result<CachedSwarm> parse_cached_swarm(std::string_view text);

// Which of the `given` settings of the run `mine` has otherwise than the remembered one, that goes on all the
// same: "gossip.rule = choco (it is pairwise), ..."; empty: none.
std::string unheard_settings(const std::vector<std::string>& given, const training::Experiment& mine,
                             const wire::Manifest& remembered);

class PeerCache {
 public:
  // Makes the folder where there is none and locks it for this process; an Error where another peer has it.
  static Result<std::unique_ptr<PeerCache>> open(const std::string& folder);
  ~PeerCache();  // unlocks
  PeerCache(const PeerCache&) = delete;
  PeerCache& operator=(const PeerCache&) = delete;

  struct Loaded {
    std::optional<CachedSwarm> swarm;  // nothing where there is no file, or none that can be used
    std::string warning;               // of a file that cannot be used: one sentence
  };
  // REQUIRES: no write() goes on.
  Loaded load(const std::string& swarm);

  // Writes the file and waits for the disk, unless it holds this text already. Safe on another thread, one
  // call at a time.
  Status write(const std::string& text);

 private:
  PeerCache(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  std::string path() const { return folder_ + "/peers.json"; }

  std::string folder_;
  int lock_;
  std::string written_;
};

}  // namespace starling::node
