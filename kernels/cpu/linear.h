// The linear layer through oneDNN's matrix products, on weights as plain as the arena has them, with the ReLU
// behind it in the same pass where there is one. Its output is plain, of y_type; with Type::bf16 it
// multiplies bfloat16.
#pragma once

#include <memory>

#include "kernels/cpu/onednn/onednn.h"
#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Operation> make_linear(const Linear& spec, const Activation& input, Passes passes, bool relu,
                                       Type type, Type y_type);

}  // namespace starling::kernels::cpu
