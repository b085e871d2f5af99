// Average and max pooling through oneDNN, in the format of the input.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Operation> make_average_pool(const AveragePool& spec, const Activation& input, Passes passes);
std::unique_ptr<Operation> make_max_pool(const MaxPool& spec, const Activation& input, Passes passes);

}  // namespace starling::kernels::cpu
