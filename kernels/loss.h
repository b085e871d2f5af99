// The loss that ends a network. Like an Operation it is made by a back end for a fixed shape and runs without
// allocating.
#pragma once

#include <cstdint>

namespace starling::kernels {

struct LossValue {
  double sum = 0;            // of the samples' losses
  std::int64_t correct = 0;  // samples whose largest logit is their label's (a tie goes to the lower class)
};

// Softmax cross-entropy, -log softmax(logits)[label], of the first `count` samples of a batch.
class Loss {
 public:
  virtual ~Loss() = default;

  // REQUIRES: 0 <= labels[i] < classes, count <= batch.
  virtual LossValue evaluate(const float* logits, const std::int32_t* labels, int count) = 0;
  // The whole batch; also d(mean loss)/d(logits), in the logits' own format.
  virtual LossValue train(const float* logits, const std::int32_t* labels, float* dlogits) = 0;
};

}  // namespace starling::kernels
