// A stack: bfloat16 in the order [row][column][image][channel]. The same pixel of all images lies together,
// so that whole tiles of images meet the same weights, and what lies beyond an edge is left out instead of
// multiplied by 0.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu::tiles {

Activation stack(const Shape& shape);
bool is_stack(const Activation& activation);

// A change of format alone: of lanes, 16 of them, into a stack. REQUIRES: tiles are available.
std::unique_ptr<Operation> make_entrance(const Activation& input);

// REQUIRES: is_stack(input).
std::unique_ptr<Operation> make_pool(const AveragePool& spec, const Activation& input);
std::unique_ptr<Operation> make_pool(const MaxPool& spec, const Activation& input);

}  // namespace starling::kernels::cpu::tiles
