// The complete state of a peer's training, and the file that holds it: a full checkpoint. It is a safetensors
// file with the parameters under the layout's names and the state of each Hogwild worker's optimizer and
// sampler (docs/CHECKPOINTS.md has the table). A peer that resumes from it continues as if it had not
// stopped.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "models/layout.h"
#include "training/runs/records/safetensors.h"

namespace starling::training {

// The state of a generator: its seed and its position in the sequence.
using RandomState = std::array<std::uint64_t, 5>;
static_assert(sizeof(Random) == sizeof(RandomState));
inline RandomState state_of(const Random& random) { return std::bit_cast<RandomState>(random); }
inline Random random_of(const RandomState& state) { return std::bit_cast<Random>(state); }

// Which samples come next.
struct Cursor {
  std::vector<std::uint32_t> order;  // of this pass over the shard: each of its samples once
  std::uint64_t position = 0;        // of the next sample in it
  RandomState random{};              // that draws the next order
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

struct WorkerState {
  Cursor cursor;
  std::optional<RandomState> images;  // the generator that crops and flips them
  std::uint64_t draws = 0;            // of the network's own chance (dropout): batches so far

  // SGD: its velocity. AdamW: its means of gradients, and in `square` the means of their squares. For the
  // trained parameters, with the arena's gaps.
  std::vector<float> velocity, square;
  std::uint64_t steps = 0;  // since those began at zero

  // Quasi-global momentum, once it has read the replica.
  struct Following {
    bool mixed = false;         // since the replica was read
    std::uint64_t steps = 0;    // since then
    double rates = 0;           // sum of their learning rates
    std::vector<float> last{};  // the replica then
    friend bool operator==(const Following&, const Following&) = default;
  };
  std::optional<Following> following;

  friend bool operator==(const WorkerState&, const WorkerState&) = default;
};

struct PeerState {
  std::vector<float> parameters;     // the arena, gaps included
  std::vector<WorkerState> workers;  // ordered by device
  // Of these workers since the peer's first start; the parameters may include a few steps more.
  std::uint64_t steps = 0, samples = 0;
  std::optional<double> loss;  // of recent batches, smoothed
};

// Writes the complete file or nothing; a written file outlasts a power failure. `facts` are added to the
// metadata. `check` as in write_atomically(). REQUIRES: the state fits the layout; sample numbers are below
// 2^31.
Status write_peer_state(const std::string& path, const models::Layout& layout, const PeerState& state,
                        Facts facts, const FileCheck& check = {});

struct SavedPeer {
  PeerState state;
  Facts facts;
};
// Error if the file is damaged, not a full checkpoint, of another model, or has a value that no peer writes.
Result<SavedPeer> read_peer_state(const std::string& path, const models::Layout& layout);
// The metadata. Reads the whole file; an Error if it is damaged or not a full checkpoint.
Result<Facts> inspect_peer_state(const std::string& path);

// A fact that is a whole number. The Error names the file.
Result<std::uint64_t> number_in(const Facts& facts, const std::string& key, const std::string& path);

}  // namespace starling::training
