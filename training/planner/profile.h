// What one device measured of a network: a graph of layers, each with the time of a mini-batch and the bytes
// of its output and its parameters. The planner of pipelines (partition.h) divides it into stages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace starling::training {

struct ProfiledLayer {
  std::string name;
  double forward = 0;      // seconds for one mini-batch
  double backward = 0;     // seconds for one mini-batch
  double activations = 0;  // bytes of the output for one mini-batch
  double parameters = 0;   // bytes
  // Bytes that its passes of one mini-batch take until the backward pass ends; 0: as many as the output.
  double kept = 0;
};

struct PipelineProfile {
  std::vector<ProfiledLayer> layers;
  std::vector<std::vector<std::size_t>> readers;  // of each layer's output, without repetition
};

inline constexpr std::size_t kMostProfiledLayers = 4096;
inline constexpr double kMostOfLayer = 1e15;  // seconds, or bytes

// Each layer reads the output of the one before it.
PipelineProfile chain_profile(std::vector<ProfiledLayer> layers);

// An Error if there is no layer or there are too many, an amount is not from 0 to kMostOfLayer, a reader does
// not exist, or the graph has a cycle.
Status check_profile(const PipelineProfile& profile);

// Reads the text form of PipeDream's profiles: a line for each layer,
//   NAME -- DESCRIPTION -- forward_compute_time=MS, backward_compute_time=MS, activation_size=BYTES,
//   parameter_size=BYTES
// (several outputs: [BYTES; BYTES]; " -- stage_id=N" may follow and is ignored), then, after a tab, a line
// "NAME -- NAME" for each edge. As in PipeDream's planner, inputs of the network (sources with a description
// that begins with "Input") and parts of outputs that nobody reads ("__getitem__") are left out.
Result<PipelineProfile> read_pipedream_profile(std::string_view text);

}  // namespace starling::training
