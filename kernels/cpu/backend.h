// The back end for processors: oneDNN, and loops of our own. Everything runs on the calling thread.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace starling::kernels::cpu {

// Which implementation computes the operations; tests and measurements select one.
enum class Choice {
  // Lanes (kernels/cpu/lanes) if they have the operation and suit the batch, our own products for the linear
  // layers of texts where they suit, else oneDNN.
  automatic,
  onednn,  // neither lanes nor our own products
  lanes,   // for any batch, wherever they have the operation
};
// REQUIRES: has_bf16() (kernels/cpu/onednn/version.h) for that precision.
std::unique_ptr<Backend> make_backend(Precision precision = Precision::f32,
                                      Choice choice = Choice::automatic);

}  // namespace starling::kernels::cpu
