// The operations in the lanes format. Each takes its input plain or in lanes; the output is in lanes.
#pragma once

#include <memory>
#include <span>

#include "kernels/operation.h"

namespace starling::kernels::cpu::lanes {

// Whether this processor has the loops and the batch fills at least three quarters of its blocks.
bool suits(const Activation& input);

// An operation for rest[0] and the specs that it can fuse, or null if there are no loops for it. REQUIRES:
// suits(input), which is plain or in lanes.
std::unique_ptr<Operation> make(std::span<const OperationSpec> rest, const Activation& input, Passes passes);

// The parts of make(). `covers`: 1, 2 with a ReLU, 3 with an average pool of 2 after that.
std::unique_ptr<Operation> make_convolution(const ConvolutionSpec& spec, const Activation& input,
                                            Passes passes, int covers);
std::unique_ptr<Operation> make_linear(const LinearSpec& spec, const Activation& input, Passes passes,
                                       bool relu);

// Converts from lanes to plain; covers no spec.
std::unique_ptr<Operation> make_exit(const Activation& input);

}  // namespace starling::kernels::cpu::lanes
