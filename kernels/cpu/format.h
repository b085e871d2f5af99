// The formats in which this back end's activations pass: plain, or one of oneDNN's (blocked by channels).
#pragma once

#include "kernels/cpu/onednn.h"
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

// An activation in the format `desc`.
Activation activation(const Shape& shape, const memory::desc& desc);

}  // namespace starling::kernels::cpu
