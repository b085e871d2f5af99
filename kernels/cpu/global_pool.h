// The average of each whole channel, read in the input's format; plain comes out.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Operation> make_global_average_pool(const Activation& input);

}  // namespace starling::kernels::cpu
