#include "kernels/cpu/loss.h"

#include "base/check.h"
#include "kernels/cpu/format.h"
#include "kernels/reference/softmax_cross_entropy.h"

namespace starling::kernels::cpu {
namespace {

class HostLoss final : public Loss {
 public:
  explicit HostLoss(const Activation& logits)
      : batch_(logits.shape.batch),
        classes_(static_cast<int>(logits.shape.sample_size())),
        logits_(describe(logits), plain_format(image_dims(logits.shape))),
        dlogits_(plain_format(image_dims(logits.shape)), describe(logits)) {}

  LossValue evaluate(const float* logits, const std::int32_t* labels, int count) override {
    STARLING_CHECK(count >= 0 && count <= batch_);
    return reference::softmax_cross_entropy<float>(logits_.convert(logits), labels, classes_, count, nullptr);
  }

  LossValue train(const float* logits, const std::int32_t* labels, float* dlogits) override {
    const LossValue value = reference::softmax_cross_entropy(logits_.convert(logits), labels, classes_,
                                                             batch_, dlogits_.target(dlogits));
    dlogits_.finish(dlogits);
    return value;
  }

 private:
  int batch_, classes_;
  Reorder logits_, dlogits_;
};

}  // namespace

std::unique_ptr<Loss> make_softmax_cross_entropy(const Activation& logits) {
  return std::make_unique<HostLoss>(logits);
}

}  // namespace starling::kernels::cpu
