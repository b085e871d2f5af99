#include "kernels/reference/backend.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/plain.h"
#include "kernels/reference/convolution.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/pool.h"
#include "kernels/reference/relu.h"
#include "kernels/reference/softmax_cross_entropy.h"

namespace starling::kernels::reference {
namespace {

template <class T>
Images<T> view(const Activation& activation, T* values) {
  const Plain* plain = as_plain(activation);
  STARLING_CHECK(plain != nullptr);
  return {values, activation.shape, plain->height, plain->width};
}

// One spec at a time, every activation plain. `Spec` picks the loops by overload.
template <class Spec>
class PlainOperation final : public Operation {
 public:
  PlainOperation(const Spec& spec, const Activation& input)
      : Operation(plain_activation(output_shape(spec, input.shape)), 1), spec_(spec), input_(input) {}

  void forward(const float* parameters, const float* x, float* y) override {
    forward(spec_, parameters, view(input_, x), view(output(), y));
  }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    const float* dy_read = dy;
    backward(spec_, parameters, view(input_, x), view(output(), y), view(output(), dy_read), view(input_, dx),
             gradient);
  }

 private:
  using In = Images<const float>;
  using Out = Images<float>;

  static void forward(const Convolution& it, const float* p, In x, Out y) {
    convolution_forward(it, p + it.weight, p + it.bias, x, y);
  }
  static void backward(const Convolution& it, const float* p, In x, In, In dy, Out dx, float* gradient) {
    convolution_backward_weight(it, x, dy, gradient + it.weight, gradient + it.bias);
    if (dx.values != nullptr) convolution_backward_data(it, p + it.weight, dy, dx);
  }

  static void forward(const Linear& it, const float* p, In x, Out y) {
    linear_forward(it, p + it.weight, p + it.bias, x, y);
  }
  static void backward(const Linear& it, const float* p, In x, In, In dy, Out dx, float* gradient) {
    linear_backward_weight(it, x, dy, gradient + it.weight, gradient + it.bias);
    if (dx.values != nullptr) linear_backward_data(it, p + it.weight, dy, dx);
  }

  static void forward(const AveragePool& it, const float*, In x, Out y) { average_pool_forward(it, x, y); }
  static void backward(const AveragePool& it, const float*, In, In, In dy, Out dx, float*) {
    if (dx.values != nullptr) average_pool_backward(it, dy, dx);
  }

  static void forward(const MaxPool& it, const float*, In x, Out y) { max_pool_forward(it, x, y); }
  static void backward(const MaxPool& it, const float*, In x, In, In dy, Out dx, float*) {
    if (dx.values != nullptr) max_pool_backward(it, x, dy, dx);
  }

  static void forward(const Relu&, const float*, In x, Out y) { relu_forward(x, y); }
  static void backward(const Relu&, const float*, In, In y, In dy, Out dx, float*) {
    if (dx.values != nullptr) relu_backward(y, dy, dx);
  }

  Spec spec_;
  Activation input_;
};

class PlainLoss final : public Loss {
 public:
  explicit PlainLoss(const Shape& logits)
      : batch_(logits.batch), classes_(static_cast<int>(logits.sample_size())) {}

  LossValue evaluate(const float* logits, const std::int32_t* labels, int count) override {
    STARLING_CHECK(count >= 0 && count <= batch_);
    return softmax_cross_entropy<float>(logits, labels, classes_, count, nullptr);
  }
  LossValue train(const float* logits, const std::int32_t* labels, float* dlogits) override {
    return softmax_cross_entropy(logits, labels, classes_, batch_, dlogits);
  }

 private:
  int batch_, classes_;
};

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }

  Activation input(const Shape& stored, int height, int width) const override {
    return plain_window(stored, height, width);
  }

  std::unique_ptr<Operation> make(std::span<const OperationSpec> rest, const Activation& input,
                                  Passes) const override {
    STARLING_CHECK(!rest.empty());
    return std::visit(
        [&]<class Spec>(const Spec& spec) -> std::unique_ptr<Operation> {
          return std::make_unique<PlainOperation<Spec>>(spec, input);
        },
        rest[0]);
  }

  std::unique_ptr<Loss> softmax_cross_entropy(const Activation& logits) const override {
    return std::make_unique<PlainLoss>(logits.shape);
  }

  void pack(const Activation& activation, const float* plain, float* stored) const override {
    copy(view(activation, stored), images(plain, activation.shape));
  }
  void unpack(const Activation& activation, const float* stored, float* plain) const override {
    copy(images(plain, activation.shape), view(activation, stored));
  }

 private:
  static void copy(Images<float> to, Images<const float> from) {
    const int size = static_cast<int>(to.shape.sample_size());
    for (int n = 0; n < to.shape.batch; ++n) {
      for (int k = 0; k < size; ++k) to.flat(n, k) = from.flat(n, k);
    }
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace starling::kernels::reference
