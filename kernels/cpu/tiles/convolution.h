// Convolutions of bfloat16 by matrix tiles (tiles.h), of activations in stacks (stack.h): for each position
// of an output, products of the images there with the weights of every tap that falls on the input, so no
// product with padding is computed, a stride is as good as none, and small images are as fast as large ones.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu::tiles {

// Whether this processor has tiles and the shapes fit them: an even number of channels, one group.
bool suits(const Convolution& spec, const Shape& in);

// y = the convolution, or its ReLU; y is a stack, and so had x better be. REQUIRES: suits().
std::unique_ptr<Operation> make_convolution(const Convolution& spec, const Activation& input, Passes passes,
                                            bool relu);

}  // namespace starling::kernels::cpu::tiles
