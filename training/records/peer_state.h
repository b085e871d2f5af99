// All that a peer's training remembers, and the file that holds it: a full checkpoint. It is a safetensors
// file with the parameters under the layout's names, and besides (docs/CHECKPOINTS.md has the table) what
// each Hogwild worker's optimizer and sampler remember. From it a peer goes on as if it had not stopped.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "models/layout.h"
#include "training/records/worker_state.h"

namespace starling::training {

struct PeerState {
  std::vector<float> parameters;     // the arena, gaps included
  std::vector<WorkerState> workers;  // those of one device behind the other's
  // What these workers have done since the peer's first life began; the parameters may hold a few steps more.
  std::uint64_t steps = 0, samples = 0;
  std::optional<double> loss;  // of late batches, smoothed
};

// A short hand for what a checkpoint says beside its tensors.
using Facts = std::map<std::string, std::string>;

// Writes the file whole or not at all; when this returns it outlives a power failure. `facts` go to the
// metadata, with what is needed to read the file back. REQUIRES: the state fits the layout; sample numbers
// are below 2^31.
Status write_peer_state(const std::string& path, const models::Layout& layout, const PeerState& state,
                        Facts facts);

struct SavedPeer {
  PeerState state;
  Facts facts;
};
// The error says what does not fit: not whole, no full checkpoint, another model's, or a word that is not as
// a peer writes it.
Result<SavedPeer> read_peer_state(const std::string& path, const models::Layout& layout);
// What the file says beside its tensors. An Error where it is not whole, or no full checkpoint: reads all of
// it.
Result<Facts> inspect_peer_state(const std::string& path);

// A fact that is a whole number; an Error names the file.
Result<std::uint64_t> number_in(const Facts& facts, const std::string& key, const std::string& path);

}  // namespace starling::training
