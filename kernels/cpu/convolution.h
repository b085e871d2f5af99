// Convolution through oneDNN, with the ReLU behind it in the same pass where there is one. With Type::bf16 it
// multiplies bfloat16, and its output is, in the library's format or, `stacked`, as the convolutions of
// tiles/ have it.
#pragma once

#include <memory>

#include "kernels/cpu/onednn/onednn.h"
#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Operation> make_convolution(const Convolution& spec, const Activation& input, Passes passes,
                                            bool relu, Type type, bool stacked);

}  // namespace starling::kernels::cpu
