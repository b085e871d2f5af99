// The lanes format (kernels.h) of an activation, and the way between it and plain images.
#pragma once

#include "kernels/buffer.h"
#include "kernels/cpu/lanes/kernels.h"
#include "kernels/operation.h"

namespace starling::kernels::cpu::lanes {

class LanesFormat : public Format {};

bool is_lanes(const Activation& activation);

// An activation in the lanes format. REQUIRES: kernels() != nullptr, as everywhere below.
Activation lanes_activation(const Shape& shape);
int block_count(const Shape& shape);

// From plain images, which may be windows of larger ones, to the lanes format, and back. Lanes without an
// image become 0; on the way back what lies outside the window is left alone.
void pack(const Activation& plain, const float* from, float* to);
void unpack(const Activation& plain, const float* from, float* to);

// The input of a lanes operation: as it is where it is in the lanes format already, else through a buffer.
class Entrance {
 public:
  Entrance(const Activation& input, Passes passes);

  const float* enter(const float* x);
  const float* entered(const float* x) const { return plain_ ? x_.data() : x; }

  // Where to write the gradient, and what to do then, so that it is at dx in the input's format.
  float* gradient(float* dx) { return plain_ ? dx_.data() : dx; }
  void leave(float* dx);

  std::size_t workspace_bytes() const { return x_.bytes() + dx_.bytes(); }

 private:
  Activation input_;
  bool plain_;
  Buffer x_, dx_;
};

}  // namespace starling::kernels::cpu::lanes
