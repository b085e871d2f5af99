// From a plan to the operations that compute it, without what nobody reads: a pool of 2 over 9x9 leaves its
// last row and column out, so the convolution before it need not compute them, nor the one before that what
// only they would have read. The network's function and its gradient are the same; LeNet's step is a quarter
// shorter.
#pragma once

#include <vector>

#include "kernels/operation.h"
#include "models/spec.h"

namespace starling::models {

struct Lowered {
  int input_height, input_width;                   // the upper left part of each image that is read
  std::vector<kernels::OperationSpec> operations;  // one per layer
};
Lowered lower(const Plan& plan);

}  // namespace starling::models
