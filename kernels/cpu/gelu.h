// The GELU through oneDNN, in the format of its input.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Operation> make_gelu(const Activation& input, Passes passes);

}  // namespace starling::kernels::cpu
