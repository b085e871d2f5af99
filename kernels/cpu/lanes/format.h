// The lanes format (kernels.h) of an activation, and conversions from and to plain images.
#pragma once

#include "kernels/cpu/lanes/kernels.h"
#include "kernels/operation.h"

namespace starling::kernels::cpu::lanes {

class LanesFormat : public Format {};

bool is_lanes(const Activation& activation);

// An activation in the lanes format. REQUIRES: kernels() != nullptr, as everywhere below.
Activation lanes_activation(const Shape& shape);
int block_count(const Shape& shape);

// From plain images, which may be windows of larger ones, to lanes, and back. Unused lanes become 0; unpack()
// does not write outside the window.
void pack(const Activation& plain, const float* from, float* to);
void unpack(const Activation& plain, const float* from, float* to);

}  // namespace starling::kernels::cpu::lanes
