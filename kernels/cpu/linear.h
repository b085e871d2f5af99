// The linear layer through oneDNN's matrix products, on plain weights as the arena has them, with the ReLU
// behind it in the same pass where there is one. Its output is plain.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Operation> make_linear(const Linear& spec, const Activation& input, Passes passes, bool relu);

}  // namespace starling::kernels::cpu
