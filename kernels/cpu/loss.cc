#include "kernels/cpu/operations.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/sequences/loops.h"
#include "kernels/plain.h"
#include "kernels/reference/softmax_cross_entropy.h"

namespace starling::kernels::cpu {
namespace {

constexpr int kManyClasses = 32;  // from here on the exponentials take much of the time

// reference::softmax_cross_entropy() with vector instructions, in float but for the sum over samples.
class ManyClasses {
 public:
  explicit ManyClasses(int classes) : classes_(classes), weights_(static_cast<std::size_t>(classes)) {}

  LossValue evaluate(const float* logits, const std::int32_t* labels, int count) {
    LossValue value;
    for (int n = 0; n < count; ++n) add(row_of(logits, n), labels[n], weights_.data(), value);
    return value;
  }
  LossValue train(const float* logits, const std::int32_t* labels, int count, float* dlogits) {
    LossValue value;
    const auto share = 1 / static_cast<float>(count);
    for (int n = 0; n < count; ++n) {
      float* gradient = dlogits + static_cast<std::ptrdiff_t>(n) * classes_;
      const float sum = add(row_of(logits, n), labels[n], gradient, value);
      sequences::loops().scale(classes_, gradient, share / sum);
      gradient[labels[n]] -= share;
    }
    return value;
  }

 private:
  const float* row_of(const float* logits, int n) const {
    return logits + static_cast<std::ptrdiff_t>(n) * classes_;
  }
  // Adds a sample's loss; `weights` become the numerators of the softmax. Returns their sum.
  float add(const float* row, std::int32_t label, float* weights, LossValue& value) const {
    STARLING_CHECK(label >= 0 && label < classes_);
    const float largest = sequences::loops().largest(classes_, row), own = row[label];
    // The first of equal ones is the prediction.
    value.correct += own == largest && std::find(row, row + label, largest) == row + label;
    std::copy_n(row, classes_, weights);
    const float sum = sequences::loops().exponentials(classes_, weights, largest);
    value.sum += std::log(static_cast<double>(sum)) + static_cast<double>(largest) - static_cast<double>(own);
    return sum;
  }

  int classes_;
  std::vector<float> weights_;
};

class HostLoss final : public Loss {
 public:
  HostLoss(const Activation& logits, const Activation& plain)
      : batch_(logits.shape.batch),
        classes_(static_cast<int>(logits.shape.sample_size())),
        many_(classes_),
        logits_(logits, plain),
        dlogits_(plain, logits) {}

  void evaluate(const float* logits, const std::int32_t* labels, int count, LossValue* value) override {
    STARLING_CHECK(count >= 0 && count <= batch_);
    const float* plain = logits_.convert(logits);
    *value = classes_ < kManyClasses
                 ? reference::softmax_cross_entropy<float>(plain, labels, classes_, count, nullptr)
                 : many_.evaluate(plain, labels, count);
  }

  void train(const float* logits, const std::int32_t* labels, float* dlogits, LossValue* value) override {
    const float* plain = logits_.convert(logits);
    float* gradient = dlogits_.target(dlogits);
    *value = classes_ < kManyClasses
                 ? reference::softmax_cross_entropy(plain, labels, classes_, batch_, gradient)
                 : many_.train(plain, labels, batch_, gradient);
    dlogits_.finish(dlogits);
  }

 private:
  int batch_, classes_;
  ManyClasses many_;
  Conversion logits_, dlogits_;
};

}  // namespace

std::unique_ptr<Loss> make_softmax_cross_entropy(const Activation& logits) {
  return std::make_unique<HostLoss>(logits, plain_activation(logits.shape));
}

}  // namespace starling::kernels::cpu
