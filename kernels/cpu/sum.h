// Two branches become one, in one pass over the stored floats, with the ReLU behind it.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Sum> make_sum(const Activation& a, const Activation& b, bool relu);

}  // namespace starling::kernels::cpu
