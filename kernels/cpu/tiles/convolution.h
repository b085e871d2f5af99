// Convolutions of bfloat16 by matrix tiles (tiles.h), of activations in stacks (stack.h): for each position
// of an output, products of the images there with the weights of every tap that falls on the input. So
// padding is not multiplied, strides cost nothing, and small images are as fast as large ones.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu::tiles {

// Whether this processor has tiles and the shapes fit them: an even number of channels, one group.
bool suits(const ConvolutionSpec& spec, const Shape& in);

// y = the convolution, or its ReLU, as a stack. x should be a stack; otherwise it is converted. REQUIRES:
// suits().
std::unique_ptr<Operation> make_convolution(const ConvolutionSpec& spec, const Activation& input,
                                            Passes passes, bool relu);

}  // namespace starling::kernels::cpu::tiles
