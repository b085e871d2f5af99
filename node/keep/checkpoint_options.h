// Whether, when and where a peer writes checkpoints (node/keep/checkpointer.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "training/experiment/experiment.h"

namespace starling::node {

struct CheckpointOptions {
  std::string folder;                                        // empty: none are written
  Pace every{Pace::Kind::time, 0, std::chrono::minutes(5)};  // steps or time
  std::uint32_t keep = 3;
};

}  // namespace starling::node
