// The formats in which this back end's activations pass: plain, or one of oneDNN's (blocked by channels, or
// of bfloat16 values).
#pragma once

#include "kernels/cpu/onednn/onednn.h"
#include "kernels/operation.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu {

class OneDnnFormat : public Format {
 public:
  explicit OneDnnFormat(const memory::desc& format) : desc(format) {}
  const memory::desc desc;  // of [batch, channels, height, width]
};

// The descriptor of either kind, [batch, channels, height, width].
memory::desc describe(const Activation& activation);

// Whether its values are bfloat16; float32 otherwise.
bool is_bf16(const Activation& activation);

// Storage as what lies there.
template <class T>
const T* values(const float* storage) {
  return reinterpret_cast<const T*>(storage);
}
template <class T>
T* values(float* storage) {
  return reinterpret_cast<T*>(storage);
}

// How many values of T the storage holds, padding included.
template <class T>
std::size_t stored(const Activation& activation) {
  return activation.floats * (sizeof(float) / sizeof(T));
}

// Clears dy wherever y, both of this activation, is not positive.
void mask_where_not_positive(const Activation& activation, const float* y, float* dy);

// An activation in the format `desc`.
Activation activation(const Shape& shape, const memory::desc& desc);

}  // namespace starling::kernels::cpu
