// Dropout in the format of its input, with the mask of the definition.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Operation> make_dropout(const Dropout& spec, const Activation& input, Passes passes);

}  // namespace starling::kernels::cpu
