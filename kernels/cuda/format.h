// The two formats of this back end's activations. float32: plain, [batch, channels, height, width]; bfloat16:
// [batch, height, width, channels], the order of the tensor cores' convolutions. Only the input of a network
// may be a window of larger images; all others are dense.
#pragma once

#include <cuda_bf16.h>

#include "kernels/operation.h"
#include "kernels/plain.h"

namespace starling::kernels::cuda {

using Bfloat16 = __nv_bfloat16;

class Bfloat16Format : public Format {};

inline bool is_bf16(const Activation& activation) {
  return dynamic_cast<const Bfloat16Format*>(activation.format.get()) != nullptr;
}

inline Activation bf16_activation(const Shape& shape) {
  return {shape, std::make_shared<Bfloat16Format>(), (shape.size() + 1) / 2};
}

// An activation of this shape in the number format of `like`.
inline Activation activation_like(const Activation& like, const Shape& shape) {
  return is_bf16(like) ? bf16_activation(shape) : plain_activation(shape);
}

// The index of the value of a channel at a place (row x width + column) of an image.
template <class T>
struct Order;
template <>
struct Order<float> {
  __host__ __device__ static std::size_t at(int n, int c, int place, int channels, int places) {
    return (static_cast<std::size_t>(n) * channels + c) * places + place;
  }
};
template <>
struct Order<Bfloat16> {
  __host__ __device__ static std::size_t at(int n, int c, int place, int channels, int places) {
    return (static_cast<std::size_t>(n) * places + place) * channels + c;
  }
};

// Calls f with a value of the activation's number type.
template <class F>
auto with_type(const Activation& activation, F f) {
  return is_bf16(activation) ? f(Bfloat16()) : f(float());
}

}  // namespace starling::kernels::cuda
