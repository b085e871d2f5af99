// Group normalization in the format of its input, with the ReLU behind it in the same pass where there is
// one.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Operation> make_group_norm(const GroupNorm& spec, const Activation& input, Passes passes,
                                           bool relu);

}  // namespace starling::kernels::cpu
