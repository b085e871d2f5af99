// The back end for processors: oneDNN, and loops of our own. Everything runs on the calling thread alone.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace starling::kernels::cpu {

// Which operations it takes: for a test or a measurement, only one kind.
enum class Choice {
  automatic,  // lanes (kernels/cpu/lanes) where there are loops for the operation and the batch suits, else
              // oneDNN
  onednn,
  lanes,  // whatever the batch, wherever there are loops
};
// REQUIRES: has_bf16() (kernels/cpu/onednn/version.h) for that precision.
std::unique_ptr<Backend> make_backend(Precision precision = Precision::f32,
                                      Choice choice = Choice::automatic);

}  // namespace starling::kernels::cpu
