// The peer cache DIR/peers.json: the run's manifest and the members' addresses, so that a peer finds its
// swarm again after a crash or a blackout.
//
// The file is replaced as a whole, so a peer that is killed at any moment leaves the old or the new one. A
// folder belongs to one running peer at a time (DIR/lock). A damaged file is kept as DIR/peers.json.damaged,
// and the peer continues without it. A file of a later version or of another swarm is an error, and stays.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "gossip/members/membership.h"
#include "training/runs/experiment/experiment.h"
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
  std::vector<CachedPeer> members;  // without this peer; those most likely to be alive first
  friend bool operator==(const CachedSwarm&, const CachedSwarm&) = default;
};

// The members to remember, the most likely to be alive later first: live ones, failed ones, and members of
// `before` that are not in the table. Without members that left or have no address, duplicates, and the peer
// itself.
std::vector<CachedPeer> peers_to_cache(const gossip::Membership& membership,
                                       const std::vector<CachedPeer>& before);

// The file's text. REQUIRES: at most kMembersMax members.
std::string to_json(const CachedSwarm& cached);
struct ReadSwarm {
  CachedSwarm swarm;
  std::string warning;  // one sentence about the members that cannot be used and are left out; empty: none
};
// An Error for a text that a peer would not write. Unusable members are no Error: they are hints, and the
// rest of the text is still good. What to_json() makes of a manifest and members that decode_message()
// (wire/codec.h) accepts is read back without a change, except the setting data.source: it becomes the data's
// name, because joiners get the manifest and older files have a path there.
Result<ReadSwarm> parse_cached_swarm(std::string_view text);

// Applies a run's shared settings. A setting that this version does not know is an Error that says so.
Status apply_settings(training::Experiment& experiment, const wire::Manifest& manifest);
// Replaces the value of a setting, or adds the setting.
void change_setting(wire::Manifest& manifest, const std::string& key, const std::string& value);

// This program, with what apply_settings() accepts.
wire::Program own_program();

// What a manifest contains beside the run's settings: its tensors (models/layout_text.h), the samples of an
// epoch, of a text the tokenizer's text form (datasets/text/tokenizer.h), and the description of the data
// (training/learning/data_facts.h). Empty and 0 in manifests of earlier versions, and where the tensors, the
// tokenizer or the description are too long. The first three are among the settings, where version 0.3 looks
// for them; what came later is among the facts, which an earlier version ignores.
struct RunFacts {
  std::string tensors;
  std::uint64_t epoch_samples = 0;
  std::string tokenizer{};
  std::string description{};
};
inline constexpr std::size_t kManifestDescriptionBytesMax = 64 * 1024;
inline constexpr std::size_t kManifestTokenizerBytesMax = 768 * 1024;
void add_facts(wire::Manifest& manifest, const RunFacts& facts);
RunFacts facts_of(const wire::Manifest& manifest);

// The `given` settings that the remembered run overrides: "gossip.rule = choco (it is pairwise), ..."; empty:
// none.
std::string ignored_settings(const std::vector<std::string>& given, const training::Experiment& mine,
                             const wire::Manifest& remembered);

// Creates the folder if it is missing, and locks a file in it for this process. Returns the file's
// descriptor, which unlocks when it is closed. The Error is `taken` if another process has the lock.
Result<int> lock_folder(const std::string& folder, const std::string& file, const std::string& taken);

class PeerCache {
 public:
  // Creates the folder if it is missing and locks it for this process; an Error if another peer has it.
  static Result<std::unique_ptr<PeerCache>> open(const std::string& folder);
  ~PeerCache();  // unlocks
  PeerCache(const PeerCache&) = delete;
  PeerCache& operator=(const PeerCache&) = delete;

  struct Loaded {
    std::optional<CachedSwarm> swarm;  // nullopt: no file, or an unusable one
    std::string warning;               // one sentence about a damaged file, or unusable members in it
  };
  // An Error leaves the file as it is: a later version or a peer of another swarm wrote it. REQUIRES: no
  // write() is in progress.
  Result<Loaded> load(const std::string& swarm);

  // Writes the file and waits for the disk, unless the file has this text already. On any thread, one call at
  // a time.
  Status write(const std::string& text);

 private:
  PeerCache(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  std::string path() const { return folder_ + "/peers.json"; }

  std::string folder_;
  int lock_;
  std::string written_;
};

}  // namespace starling::node
