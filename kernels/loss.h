// The loss that ends a network. Like an Operation it is made by a back end for a fixed shape and runs without
// allocating.
#pragma once

#include <cstdint>

namespace starling::kernels {

struct LossValue {
  double sum = 0;            // of the samples' losses
  std::int64_t correct = 0;  // samples whose largest logit is their label's (a tie goes to the lower class)
};

// Softmax cross-entropy, -log softmax(logits)[label], of the first `count` samples of a batch. Logits, labels
// and dlogits lie in the back end's memory, `value` in its staging memory: it is there when the queue is done.
class Loss {
 public:
  virtual ~Loss() = default;

  // REQUIRES: 0 <= labels[i] < classes, count <= batch.
  virtual void evaluate(const float* logits, const std::int32_t* labels, int count, LossValue* value) = 0;
  // The whole batch; also d(mean loss)/d(logits), in the logits' own format.
  virtual void train(const float* logits, const std::int32_t* labels, float* dlogits, LossValue* value) = 0;
};

}  // namespace starling::kernels
