// Checkpoints of a running peer: files NAME.STEPS.safetensors in a folder
// (training/runs/records/peer_state.h, docs/CHECKPOINTS.md), written atomically; the latest few are kept.
// Also finds the one to resume from.
//
// Several peers may share a folder, each under its own name, which is locked (NAME.lock). A peer writes only
// if the folder has no checkpoint of its name with more steps, so the file with the most steps is always the
// one to resume from.
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
#include "node/keep/peer_cache.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/records/peer_state.h"

namespace starling::node {

// Whether, when and where a peer writes checkpoints.
struct CheckpointOptions {
  std::string folder;                                        // empty: none are written
  Pace every{Pace::Kind::time, 0, std::chrono::minutes(5)};  // steps or time
  std::uint32_t keep = 3;

  // 0: none are written, or after a time.
  std::uint64_t steps_between() const {
    return folder.empty() || every.kind != Pace::Kind::steps ? 0 : every.steps;
  }
};

// What a checkpoint holds about the run and the peer's place in it, besides the training's state.
struct CheckpointFacts {
  CachedSwarm run;  // its name, its manifest, and the members' addresses
  models::ModelText model;
  training::Facts data;  // training::data_facts()
  std::string source;    // of the data
  std::string name;      // the peer's
  PeerId id;             // of the life that wrote the file
  std::uint32_t incarnation = 0;
  std::uint64_t order = 0;  // of the data, if the peer has no slot; Remembered::order_of
  // Of the trainer before this life; that the swarm counts for earlier lives of this id; of all others so
  // far.
  std::uint64_t earlier_samples = 0, counted_before = 0, others_samples = 0;
  Duration elapsed{0};  // since the run began
};
training::Facts to_facts(const CheckpointFacts& facts, const training::PeerState& state);

// The fact that a peer with data of its own keeps: their fingerprint, 16 hexadecimal digits.
inline constexpr const char* kOwnDataFact = "own_data";

// A checkpoint to resume from.
struct Resumption {
  std::string path;
  CachedSwarm run;
  std::string source;
  std::string name;
  std::uint64_t order = 0;
  gossip::EarlierLives earlier;
  std::string own_data;                  // kOwnDataFact; empty: none, or of an earlier version
  training::PeerState state;             // set by read_state()
  std::vector<std::string> passed_over;  // files with more steps that cannot be used
  std::vector<std::string> warnings;     // one sentence each
};
// The file, or the complete one with the most steps in a folder; `name` selects the peer if the folder has
// checkpoints of several. nullopt: the folder has none. Verifies the whole file, and keeps everything except
// for the tensors.
Result<std::optional<Resumption>> find_resumption(const std::string& file_or_folder, const std::string& name);
// Reads the tensors. The Error names what does not fit.
Status read_state(Resumption& resumption, const models::Layout& layout);

// The run of a checkpoint, with this peer's own settings from `mine` and the shared ones that its user has
// `given` (keys). Any end that is given replaces the run's.
Result<training::Experiment> resumed_experiment(const Resumption& resumption,
                                                const training::Experiment& mine,
                                                const std::vector<std::string>& given,
                                                const std::optional<std::string>& data);

class Checkpointer {
 public:
  // Creates the folder and locks the name. An Error if another peer has it, or if the folder has checkpoints
  // of this name with more steps than `resumed` (null: the peer does not resume). Unusable files that were
  // passed over are renamed (.damaged).
  static Result<std::unique_ptr<Checkpointer>> open(const CheckpointOptions& options, const std::string& name,
                                                    const Resumption* resumed);
  ~Checkpointer();  // unlocks the name
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Whether the next checkpoint is due: none is under way, and enough steps or time have passed since the
  // last. The first one is due after kFirstAfter at most.
  bool is_due(std::uint64_t steps) const;
  void begins(std::uint64_t steps);
  void ends() { under_way_ = false; }

  // Writes the file and reads it back, gives it its name, then removes the older ones; on any thread, one
  // call at a time. Returns the path. A failure leaves every older file as it was; values that are not
  // finite, and a file that no peer could resume from, are failures.
  Result<std::string> write(const models::Layout& layout, const training::PeerState& state,
                            const CheckpointFacts& facts);

  // False if a warning with the same cause, the part after the last ": ", was logged less than a minute ago.
  bool is_news(const std::string& warning);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Duration kFirstAfter = std::chrono::seconds(30);
  Checkpointer(CheckpointOptions options, std::string name, int lock);

  CheckpointOptions options_;
  std::string name_;
  int lock_;
  bool under_way_ = false;
  bool first_ = true;  // none has begun in this life
  std::uint64_t last_steps_ = 0;
  Clock::time_point last_;
  std::vector<std::uint64_t> kept_;  // steps of the existing files, ascending
  std::string warned_;
  Clock::time_point warned_at_;
};

// Which checkpoints become events (node/front/event_log.h keeps 256): the first one, the first failure, and
// the first success after a failure. Repetitions become events at growing intervals, with the number of those
// left out. Used by one thread; instants come from the caller's clock and never decrease.
class CheckpointNews {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // The event's text for a checkpoint that was written, or failed and why; nullopt: it is not an event.
  std::optional<std::string> written(const std::string& path, Instant now);
  std::optional<std::string> failed(const std::string& why, Instant now);

  static constexpr std::chrono::minutes kShortestGap{1}, kLongestGap{60};  // between two events of a kind

 private:
  struct Kind {
    std::optional<Instant> reported;
    std::chrono::minutes gap = kShortestGap;
    std::uint64_t unreported = 0;
  };
  std::optional<std::string> tell(Kind& kind, bool changed, std::string sentence, Instant now);

  Kind written_, failed_;
  bool failing_ = false;
};

}  // namespace starling::node
