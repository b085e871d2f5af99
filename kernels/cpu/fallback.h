// The definition itself (kernels/reference) for what there are no loops for here, between conversions to
// plain and back.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Operation> make_fallback(const OperationSpec& spec, const Activation& input, Passes passes);

}  // namespace starling::kernels::cpu
