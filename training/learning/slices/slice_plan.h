// How the layers of a network are divided among parts that compute the same batch: which channels each part
// computes of every layer, what it needs of the layer's input, and where values are gathered.
//
// Convolutions are divided by output channels, or by whole groups; linear layers by units; attention by whole
// groups of keys and values with the heads that read them; SwiGLU by its outputs. Layers that compute each
// channel from the same channel (ReLU, GELU, batch norm, pools, dropout), and sums, stay in the slices of
// what they read. A linear layer that only attention or SwiGLU reads has the units that each part needs
// there. Layer, group and RMS norms are repeated: every part computes all of them, which takes no longer than
// if the others waited for one. Embeddings and positions are computed by part 0.
#pragma once

#include <cstddef>
#include <vector>

#include "models/spec.h"

namespace starling::training {

struct ChannelRange {
  int begin, end;
  friend bool operator==(const ChannelRange&, const ChannelRange&) = default;
};
// In the order in which a part holds them. None is empty, and adjacent ones are joined.
using Channels = std::vector<ChannelRange>;
int count_of(const Channels& channels);

// Of one layer, by part. A part without channels does not compute the layer.
struct LayerSlices {
  std::vector<Channels> channels;  // of the layer's output
  std::vector<Channels> needs;     // of its input; of a sum, of both

  // Whether all parts compute all channels. Each has a partial gradient of them then.
  bool is_repeated() const {
    return channels.size() > 1 && !channels[0].empty() && channels[0] == channels[1];
  }
};

// What a run reads of an earlier one.
struct SliceInput {
  int layer;                    // whose output it is; LayerInfo::kInput: the batch
  std::vector<Channels> needs;  // by part
  bool gathered;                // false: each part computed what it needs itself
};

// Consecutive layers that a part computes without any other part. Only the last one's output is read by other
// runs.
struct SliceRun {
  int begin, end;  // layers [begin, end)
  std::vector<SliceInput> inputs;
  bool gathered = false;  // the output; by a later run, or by the loss, which part 0 computes
};

// The number of the input with these needs; run.inputs.size() if there is none.
std::size_t find_input(const SliceRun& run, int layer, const std::vector<Channels>& needs);

struct SlicePlan {
  std::vector<LayerSlices> layers;  // of the plan
  std::vector<SliceRun> runs;
};

// REQUIRES: parts > 0.
SlicePlan slice_layers(const models::Plan& plan, std::size_t parts);

// The layer that can be divided among most parts, and their number: its channels, units or groups. Without
// such a layer: LayerInfo::kNone and 1.
struct MostSlices {
  int layer;
  int parts;
};
MostSlices most_slices(const models::Plan& plan);

// Floats that lie side by side in two slices of one sample.
struct SlicePiece {
  std::size_t from, to, count;
  friend bool operator==(const SlicePiece&, const SlicePiece&) = default;
};
// The channels that are in both slices, with `plane` floats for each channel.
std::vector<SlicePiece> common_pieces(const Channels& from, const Channels& to, std::size_t plane);

}  // namespace starling::training
