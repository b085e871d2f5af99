// Softmax cross-entropy on the host. A batch has few logits, so the definition itself, in double, is fast
// enough.
#pragma once

#include <memory>

#include "kernels/loss.h"
#include "kernels/operation.h"

namespace starling::kernels::cpu {

std::unique_ptr<Loss> make_softmax_cross_entropy(const Activation& logits);

}  // namespace starling::kernels::cpu
