// The operations in the lanes format. Each takes its input plain or in lanes, and yields lanes.
#pragma once

#include <memory>
#include <span>

#include "kernels/operation.h"

namespace starling::kernels::cpu::lanes {

// Whether this processor has the loops, and the batch fills most of its blocks.
bool suits(const Activation& input);

// An operation for rest[0] and what can go with it, or null where there are no loops for it. REQUIRES:
// suits(input), which is plain or in lanes.
std::unique_ptr<Operation> make(std::span<const OperationSpec> rest, const Activation& input, Passes passes);

// The parts of make(). `covers` is 1, or 2 with a ReLU, or 3 with an average pool of 2 behind that.
std::unique_ptr<Operation> make_convolution(const Convolution& spec, const Activation& input, Passes passes,
                                            int covers);
std::unique_ptr<Operation> make_linear(const Linear& spec, const Activation& input, Passes passes, bool relu);
std::unique_ptr<Operation> make_relu(const Activation& input, Passes passes);

// From lanes to plain; covers no spec.
std::unique_ptr<Operation> make_exit(const Activation& input);

}  // namespace starling::kernels::cpu::lanes
