// From a plan to the operations that compute it, without what nobody reads: a pool of 2 over 9x9 leaves its
// last row and column out, so the convolution before it need not compute them, nor the one before that what
// only they would have read. The network's function and its gradient are the same; LeNet's step is a quarter
// shorter.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/operation.h"
#include "models/spec.h"

namespace starling::models {

// What computes one layer of the plan, from outputs of earlier ones by their index (LayerInfo::kInput: the
// batch).
struct Node {
  std::optional<kernels::OperationSpec> operation;  // none: the sum of `from` and `other`
  int from;
  int other;    // of a sum, else LayerInfo::kNone
  int readers;  // nodes that read its output
};

struct Lowered {
  int input_height, input_width;  // the upper left part of each image that is read
  std::vector<Node> nodes;        // one per layer
};

// Chance in the network (dropout) is drawn from `seed`.
Lowered lower(const Plan& plan, std::uint64_t seed = 0);

}  // namespace starling::models
