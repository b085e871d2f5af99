// Checkpoints of a running peer: files NAME.STEPS.safetensors in a folder (training/peer_state.h,
// docs/CHECKPOINTS.md), written whole or not at all, of which the latest few are kept; and how a peer finds
// the one that it goes on from.
//
// Several peers may share a folder, each under a name of its own, which is locked (NAME.lock). A peer writes
// only where nothing of its name is ahead of it, so the file with the most steps is always the one to go on
// from.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "gossip/peer.h"
#include "models/layout.h"
#include "models/spec_text.h"
#include "node/keep/checkpoint_options.h"
#include "node/keep/peer_cache.h"
#include "training/experiment/experiment.h"
#include "training/records/peer_state.h"

namespace starling::node {

// What a checkpoint says of the run and the peer's place in it, beside what its training remembers.
struct CheckpointFacts {
  CachedSwarm run;  // its name, its manifest, and where the members listened
  models::ModelText model;
  std::string source;  // where the data lay
  std::string name;    // the peer's
  PeerId id;         // of the life that wrote it
  std::uint32_t incarnation = 0;
  std::uint64_t order =
      0;  // of a peer without a slot: what its order of the data was drawn from, in its first life
  std::uint64_t earlier_samples = 0, others_samples = 0;  // before this life; of everybody else, by then
  Duration elapsed{0};                                    // since the run began
};
training::Facts to_facts(const CheckpointFacts& facts, const training::PeerState& state);

// A checkpoint to go on from.
struct Resumption {
  std::string path;
  CachedSwarm run;
  std::string source;
  std::string name;
  std::uint64_t order = 0;
  gossip::EarlierLives earlier;
  training::PeerState state;             // once it was read
  std::vector<std::string> passed_over;  // files with more steps that cannot be used
  std::vector<std::string> warnings;     // a sentence each
};
// The file, or of a folder the one with the most steps that is whole; where the folder has checkpoints of
// several peers `name` says of which. nullopt: a folder without any. Reads all of it and keeps what it says,
// not the tensors.
Result<std::optional<Resumption>> find_resumption(const std::string& file_or_folder, const std::string& name);
// Reads the rest. The Error says what does not fit.
Status read_state(Resumption& resumption, const models::Layout& layout);

// The run of a checkpoint with what this peer's user wants otherwise: `given`, keys of settings of `mine`,
// and all that is a peer's own. Any end that is given takes the place of the run's.
Result<training::Experiment> resumed_experiment(const Resumption& resumption,
                                                const training::Experiment& mine,
                                                const std::vector<std::string>& given,
                                                const std::optional<std::string>& data);

class Checkpointer {
 public:
  // Makes the folder and takes the name. An Error where another peer has it, or the folder holds checkpoints
  // of this name that are ahead of `resumed`, or of a beginner (null). Those that were passed over are put
  // aside (.damaged).
  static Result<std::unique_ptr<Checkpointer>> open(const CheckpointOptions& options, const std::string& name,
                                                    const Resumption* resumed);
  ~Checkpointer();  // gives the name back
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Whether it is time to begin another one: none is under way, and steps or time since the last one have
  // passed.
  bool is_due(std::uint64_t steps) const;
  void begins(std::uint64_t steps);
  void ends() { under_way_ = false; }

  // Writes the file and then removes the older ones, on any thread, one call at a time. Returns its path. An
  // Error leaves every older file as it was; so does a state with values that are not finite.
  Result<std::string> write(const models::Layout& layout, const training::PeerState& state,
                            const CheckpointFacts& facts);

  // Whether a warning of this sentence is news: not one that was given less than a minute ago.
  bool is_news(const std::string& warning);

 private:
  using Clock = std::chrono::steady_clock;
  Checkpointer(CheckpointOptions options, std::string name, int lock);

  CheckpointOptions options_;
  std::string name_;
  int lock_;
  bool under_way_ = false;
  std::uint64_t last_steps_ = 0;
  Clock::time_point last_;
  std::vector<std::uint64_t> kept_;  // steps of the files that are there, in order
  std::string warned_;
  Clock::time_point warned_at_;
};

}  // namespace starling::node
