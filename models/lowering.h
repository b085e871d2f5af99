// Lowers a plan to operations, without values that no operation reads: a pool of 2 over 9x9 does not read the
// last row and column, so the convolution before it does not compute them, nor does the one before that
// compute what only they need. The network's function and gradient stay the same; LeNet's step takes a
// quarter less.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/operation.h"
#include "models/spec.h"

namespace starling::models {

// Computes one layer of the plan from outputs of earlier ones, which it names by index (LayerInfo::kInput:
// the batch).
struct Node {
  std::optional<kernels::OperationSpec> operation;  // nullopt: the sum of `from` and `other`
  int from;
  int other;    // of a sum; otherwise LayerInfo::kNone
  int readers;  // nodes that read its output
};

struct Lowered {
  int input_height, input_width;  // the upper left part of each image that is read
  std::vector<Node> nodes;        // one per layer
};

// `seed`: for random draws in the network (dropout).
Lowered lower(const Plan& plan, std::uint64_t seed = 0);

}  // namespace starling::models
