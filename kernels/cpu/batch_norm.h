// Batch normalization in the format of its input, with the ReLU behind it in the same passes where there is
// one.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Operation> make_batch_norm(const BatchNorm& spec, const Activation& input, Passes passes,
                                           bool relu);

}  // namespace starling::kernels::cpu
