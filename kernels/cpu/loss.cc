#include "kernels/cpu/loss.h"

#include "base/check.h"
#include "kernels/cpu/format.h"
#include "kernels/cpu/lanes/format.h"
#include "kernels/reference/softmax_cross_entropy.h"

namespace starling::kernels::cpu {
namespace {

class HostLoss final : public Loss {
 public:
  explicit HostLoss(const Activation& logits)
      : batch_(logits.shape.batch),
        classes_(static_cast<int>(logits.shape.sample_size())),
        plain_format_(plain_activation(logits.shape)),
        in_lanes_(lanes::is_lanes(logits)) {
    if (in_lanes_) plain_ = Buffer(plain_format_.floats);
    if (in_lanes_) return;
    logits_ = Reorder(describe(logits), plain_format(image_dims(logits.shape)));
    dlogits_ = Reorder(plain_format(image_dims(logits.shape)), describe(logits));
  }

  void evaluate(const float* logits, const std::int32_t* labels, int count, LossValue* value) override {
    STARLING_CHECK(count >= 0 && count <= batch_);
    *value = reference::softmax_cross_entropy<float>(plain(logits), labels, classes_, count, nullptr);
  }

  void train(const float* logits, const std::int32_t* labels, float* dlogits, LossValue* value) override {
    // In lanes the gradient takes the logits' place: the loss reads each before it writes it.
    const float* in = plain(logits);
    float* out = in_lanes_ ? plain_.data() : dlogits_.target(dlogits);
    *value = reference::softmax_cross_entropy(in, labels, classes_, batch_, out);
    if (in_lanes_) {
      lanes::pack(plain_format_, out, dlogits);
    } else {
      dlogits_.finish(dlogits);
    }
  }

 private:
  const float* plain(const float* logits) {
    if (!in_lanes_) return logits_.convert(logits);
    lanes::unpack(plain_format_, logits, plain_.data());
    return plain_.data();
  }

  int batch_, classes_;
  Activation plain_format_;
  bool in_lanes_;
  Buffer plain_;
  Reorder logits_, dlogits_;
};

}  // namespace

std::unique_ptr<Loss> make_softmax_cross_entropy(const Activation& logits) {
  return std::make_unique<HostLoss>(logits);
}

}  // namespace starling::kernels::cpu
