#include "kernels/cpu/operations.h"

#include "base/check.h"
#include "kernels/cpu/conversion.h"
#include "kernels/plain.h"
#include "kernels/reference/softmax_cross_entropy.h"

namespace starling::kernels::cpu {
namespace {

class HostLoss final : public Loss {
 public:
  HostLoss(const Activation& logits, const Activation& plain)
      : batch_(logits.shape.batch),
        classes_(static_cast<int>(logits.shape.sample_size())),
        logits_(logits, plain),
        dlogits_(plain, logits) {}

  void evaluate(const float* logits, const std::int32_t* labels, int count, LossValue* value) override {
    STARLING_CHECK(count >= 0 && count <= batch_);
    *value =
        reference::softmax_cross_entropy<float>(logits_.convert(logits), labels, classes_, count, nullptr);
  }

  void train(const float* logits, const std::int32_t* labels, float* dlogits, LossValue* value) override {
    *value = reference::softmax_cross_entropy(logits_.convert(logits), labels, classes_, batch_,
                                              dlogits_.target(dlogits));
    dlogits_.finish(dlogits);
  }

 private:
  int batch_, classes_;
  Conversion logits_, dlogits_;
};

}  // namespace

std::unique_ptr<Loss> make_softmax_cross_entropy(const Activation& logits) {
  return std::make_unique<HostLoss>(logits, plain_activation(logits.shape));
}

}  // namespace starling::kernels::cpu
