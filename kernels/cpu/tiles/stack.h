// A stack: bfloat16 in the order [row][column][image][channel]. The same pixel of all images is together, so
// whole tiles of images are multiplied by the same weights, and positions outside the image are omitted
// instead of multiplied by 0.
#pragma once

#include <memory>

#include "kernels/operation.h"

namespace starling::kernels::cpu::tiles {

Activation stack(const Shape& shape);
bool is_stack(const Activation& activation);

// Converts from 16 lanes to a stack; covers no spec. REQUIRES: tiles are available.
std::unique_ptr<Operation> make_entrance(const Activation& input);

// REQUIRES: is_stack(input).
std::unique_ptr<Operation> make_pool(const AveragePoolSpec& spec, const Activation& input);
std::unique_ptr<Operation> make_pool(const MaxPoolSpec& spec, const Activation& input);

}  // namespace starling::kernels::cpu::tiles
