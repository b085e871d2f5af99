// The positions of any activation's values, also of windows of larger images, for kernels that convert
// formats.
#pragma once

#include "kernels/cuda/format.h"
#include "kernels/cuda/wide.h"

namespace starling::kernels::cuda {

struct Strides {
  unsigned sample, channel, row, column;

  __host__ __device__ unsigned at(unsigned n, unsigned c, unsigned i, unsigned j) const {
    return n * sample + c * channel + i * row + j * column;
  }
};

struct Extents {
  unsigned channels, height, width;
};

// Some values of an activation, in the order of their memory.
struct Walk {
  unsigned n;
  bool channels_last;
  Extents extents;

  struct Place {
    unsigned n, c, i, j;
  };
  __device__ Place place(unsigned index) const {
    const auto [channels, height, width] = extents;
    unsigned rest = index, c = 0;
    if (channels_last) {
      c = rest % channels;
      rest /= channels;
    }
    const unsigned j = rest % width;
    rest /= width;
    const unsigned i = rest % height;
    rest /= height;
    if (!channels_last) {
      c = rest % channels;
      rest /= channels;
    }
    return {rest, c, i, j};
  }
};

inline Extents stored_extents(const Activation& activation) {
  const Shape& shape = activation.shape;
  const Plain* plain = as_plain(activation);
  const int height = plain == nullptr ? shape.height : plain->height,
            width = plain == nullptr ? shape.width : plain->width;
  return {static_cast<unsigned>(shape.channels), static_cast<unsigned>(height), static_cast<unsigned>(width)};
}
inline Extents used_extents(const Activation& activation) {
  const Shape& shape = activation.shape;
  return {static_cast<unsigned>(shape.channels), static_cast<unsigned>(shape.height),
          static_cast<unsigned>(shape.width)};
}

inline Strides strides_of(const Activation& activation) {
  const auto [channels, height, width] = stored_extents(activation);
  if (is_bf16(activation)) return {height * width * channels, 1, width * channels, channels};
  return {channels * height * width, height * width, width, 1};
}

// Over all stored values of the activation, or those in use.
inline Walk walk(const Activation& activation, const Extents& extents) {
  counted(activation);
  return {static_cast<unsigned>(activation.shape.batch) * extents.channels * extents.height * extents.width,
          is_bf16(activation), extents};
}
inline Walk walk_stored(const Activation& activation) { return walk(activation, stored_extents(activation)); }
inline Walk walk_used(const Activation& activation) { return walk(activation, used_extents(activation)); }

// Calls f(a value of a's type, a value of b's type).
template <class F>
void with_types(const Activation& a, const Activation& b, const F& f) {
  with_type(a, [&](auto first) { with_type(b, [&](auto second) { f(first, second); }); });
}

}  // namespace starling::kernels::cuda
