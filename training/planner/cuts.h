// Where a profile can be cut. A cut divides the layers into those before it, which include everything that
// they read, and the rest. In a chain there is a cut after each layer. In a graph the cuts are PipeDream's
// states: the first set is the first layer without sources, and a set is extended by one layer that reads
// from it, together with all that this layer needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "training/planner/profile.h"

namespace starling::training {

// For each set of layers, in a topological order of the sets; the last one has all layers. Index i means the
// cut behind set i.
struct PipelineCuts {
  std::vector<std::vector<std::size_t>> layers;    // ascending
  std::vector<std::vector<std::uint32_t>> before;  // smaller sets that set i contains, ascending
  std::vector<double> seconds;                     // forward and backward, of the set
  std::vector<double> activations;                 // bytes that the passes of the set take
  std::vector<double> parameters;                  // bytes in the set
  std::vector<double> crossing;                    // bytes of outputs that are read behind the cut

  std::size_t size() const { return layers.size(); }
  // The largest number of stages.
  std::size_t longest() const;
};

inline constexpr std::size_t kMostCuts = 4096;

// The order is the reverse postorder of a depth-first search that tries extensions in the order of the layers
// they read from, then of these layers' lists of readers. An Error if the profile is not valid, is not
// connected, or has more than kMostCuts cuts.
Result<PipelineCuts> find_cuts(const PipelineProfile& profile);

}  // namespace starling::training
