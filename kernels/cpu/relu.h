// A ReLU that could not go with the operation before it.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Operation> make_relu(const Activation& input);

}  // namespace starling::kernels::cpu
