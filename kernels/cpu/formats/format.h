// This back end's formats of activations: plain, or one of oneDNN's (blocked by channels, or of bfloat16
// values).
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

// The descriptor [batch, channels, height, width] of either format.
memory::desc describe(const Activation& activation);

// The same of a batch in its own format, or in the plain one if it is a window of larger images.
memory::desc dense_format(const Activation& activation);

// Whether its values are bfloat16; else float32.
bool is_bf16(const Activation& activation);

// The number of values of T in the storage, including padding.
template <class T>
std::size_t stored(const Activation& activation) {
  return activation.floats * (sizeof(float) / sizeof(T));
}

// Sets dy to 0 where y is not positive; both have this format.
void mask_where_not_positive(const Activation& activation, const float* y, float* dy);

// An activation in the format `desc`.
Activation activation(const Shape& shape, const memory::desc& desc);

}  // namespace starling::kernels::cpu
