#include "kernels/reference/backend.h"

#include <type_traits>

#include "base/check.h"
#include "kernels/plain.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/convolution.h"
#include "kernels/reference/dropout.h"
#include "kernels/reference/embedding.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/norm.h"
#include "kernels/reference/pointwise.h"
#include "kernels/reference/pool.h"
#include "kernels/reference/softmax_cross_entropy.h"

namespace starling::kernels::reference {
namespace {

template <class T>
Images<T> view(const Activation& activation, T* values) {
  const Plain* plain = as_plain(activation);
  STARLING_CHECK(plain != nullptr);
  return {values, activation.shape, plain->height, plain->width};
}

void copy(Images<const float> from, Images<float> to) {
  for_each_flat(to.shape, [&](int n, int k) { to.flat(n, k) = from.flat(n, k); });
}

// Computes one spec; all activations are plain. Overloads select the loops of `Spec`.
template <class Spec>
class PlainOperation final : public Operation {
 public:
  PlainOperation(const Spec& spec, const Activation& input, Passes passes)
      : Operation(plain_activation(output_shape(spec, input.shape)), 1),
        spec_(spec),
        input_(input),
        training_(passes.backward) {}

  void forward(const float* parameters, const float* x, float* y) override {
    forward(spec_, parameters, view(input_, x), view(output(), y));
  }

  void forward_again(const float* parameters, const float* x, float* y) override {
    if constexpr (std::is_same_v<Spec, DropoutSpec> || std::is_same_v<Spec, AttentionSpec>) {
      forward_again(spec_, parameters, view(input_, x), view(output(), y));
    } else {
      forward(parameters, x, y);
    }
  }

  void set_draws(std::uint64_t draws) override { draws_ = draws; }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    const float* dy_read = dy;
    backward(spec_, parameters, view(input_, x), view(output(), y), view(output(), dy_read), view(input_, dx),
             gradient);
  }

 private:
  using In = Images<const float>;
  using Out = Images<float>;

  void forward(const ConvolutionSpec& it, const float* p, In x, Out y) {
    convolution_forward(it, p + it.weight, it.bias == kNone ? nullptr : p + it.bias, x, y);
  }
  void backward(const ConvolutionSpec& it, const float* p, In x, In, In dy, Out dx, float* gradient) {
    float* dbias = it.bias == kNone ? nullptr : gradient + it.bias;
    convolution_backward_weight(it, x, dy, gradient + it.weight, dbias);
    if (dx.values != nullptr) convolution_backward_data(it, p + it.weight, dy, dx);
  }

  void forward(const LinearSpec& it, const float* p, In x, Out y) {
    linear_forward(it, p + it.weight, it.bias == kNone ? nullptr : p + it.bias, x, y);
  }
  void backward(const LinearSpec& it, const float* p, In x, In, In dy, Out dx, float* gradient) {
    float* dbias = it.bias == kNone ? nullptr : gradient + it.bias;
    linear_backward_weight(it, x, dy, gradient + it.weight, dbias);
    if (dx.values != nullptr) linear_backward_data(it, p + it.weight, dy, dx);
  }

  void forward(const AveragePoolSpec& it, const float*, In x, Out y) { average_pool_forward(it, x, y); }
  void backward(const AveragePoolSpec& it, const float*, In, In, In dy, Out dx, float*) {
    if (dx.values != nullptr) average_pool_backward(it, dy, dx);
  }

  void forward(const MaxPoolSpec& it, const float*, In x, Out y) { max_pool_forward(it, x, y); }
  void backward(const MaxPoolSpec& it, const float*, In x, In, In dy, Out dx, float*) {
    if (dx.values != nullptr) max_pool_backward(it, x, dy, dx);
  }

  void forward(const GlobalAveragePoolSpec&, const float*, In x, Out y) { global_average_pool_forward(x, y); }
  void backward(const GlobalAveragePoolSpec&, const float*, In, In, In dy, Out dx, float*) {
    if (dx.values != nullptr) global_average_pool_backward(dy, dx);
  }

  void forward(const ReluSpec&, const float*, In x, Out y) { relu_forward(x, y); }
  void backward(const ReluSpec&, const float*, In, In y, In dy, Out dx, float*) {
    if (dx.values != nullptr) relu_backward(y, dy, dx);
  }

  void forward(const GeluSpec& it, const float*, In x, Out y) { gelu_forward(it, x, y); }
  void backward(const GeluSpec& it, const float*, In x, In, In dy, Out dx, float*) {
    if (dx.values != nullptr) gelu_backward(it, x, dy, dx);
  }

  void forward(const SwigluSpec&, const float*, In x, Out y) { swiglu_forward(x, y); }
  void backward(const SwigluSpec&, const float*, In x, In, In dy, Out dx, float*) {
    if (dx.values != nullptr) swiglu_backward(x, dy, dx);
  }

  void forward(const EmbeddingSpec& it, const float* p, In x, Out y) {
    embedding_forward(it, p + it.weight, x, y);
  }
  void backward(const EmbeddingSpec& it, const float*, In x, In, In dy, Out, float* gradient) {
    embedding_backward(it, x, dy, gradient + it.weight);
  }

  void forward(const PositionSpec& it, const float* p, In x, Out y) {
    position_forward(it, p + it.weight, x, y);
  }
  void backward(const PositionSpec& it, const float*, In, In, In dy, Out dx, float* gradient) {
    position_backward(it, dy, dx, gradient + it.weight);
  }

  void forward(const AttentionSpec& it, const float*, In x, Out y) {
    attention_forward(it, {it, training_, draws_++}, x, y);
  }
  void forward_again(const AttentionSpec& it, const float*, In x, Out y) {
    attention_forward(it, {it, training_, draws_ - 1}, x, y);
  }
  void backward(const AttentionSpec& it, const float*, In x, In, In dy, Out dx, float*) {
    if (dx.values != nullptr) attention_backward(it, {it, training_, draws_ - 1}, x, dy, dx);
  }

  void forward(const RmsNormSpec& it, const float* p, In x, Out y) {
    rms_norm_forward(it, p + it.scale, x, y);
  }
  void backward(const RmsNormSpec& it, const float* p, In x, In, In dy, Out dx, float* gradient) {
    rms_norm_backward(it, p + it.scale, x, dy, dx, gradient + it.scale);
  }

  void forward(const BatchNormSpec& it, const float* p, In x, Out y) {
    if (training_) return batch_norm_forward(it, p + it.scale, p + it.shift, x, y);
    batch_norm_apply(it, p + it.scale, p + it.shift, p + it.mean, p + it.variance, x, y);
  }
  void backward(const BatchNormSpec& it, const float* p, In x, In, In dy, Out dx, float* gradient) {
    batch_norm_backward(it, p + it.scale, p + it.mean, p + it.variance, x, dy, dx, gradient + it.scale,
                        gradient + it.shift, gradient + it.mean, gradient + it.variance);
  }

  void forward(const GroupNormSpec& it, const float* p, In x, Out y) {
    group_norm_forward(it, p + it.scale, it.shift == kNone ? nullptr : p + it.shift, x, y);
  }
  void backward(const GroupNormSpec& it, const float* p, In x, In, In dy, Out dx, float* gradient) {
    float* dshift = it.shift == kNone ? nullptr : gradient + it.shift;
    group_norm_backward(it, p + it.scale, x, dy, dx, gradient + it.scale, dshift);
  }

  // `draws_` includes this forward().
  void forward(const DropoutSpec& it, const float*, In x, Out y) {
    if (training_) return dropout(it, draws_++, x, y);
    copy(x, y);
  }
  void forward_again(const DropoutSpec& it, const float*, In x, Out y) {
    if (training_) return dropout(it, draws_ - 1, x, y);
    copy(x, y);
  }
  void backward(const DropoutSpec& it, const float*, In, In, In dy, Out dx, float*) {
    if (dx.values != nullptr) dropout(it, draws_ - 1, dy, dx);
  }

  Spec spec_;
  Activation input_;
  bool training_;
  std::uint64_t draws_ = 0;
};

class PlainSum final : public Sum {
 public:
  PlainSum(const Activation& a, const Activation& b, bool relu)
      : Sum(plain_activation(a.shape)), a_(a), b_(b), relu_(relu) {}

  void forward(const float* a, const float* b, float* y) override {
    sum_forward(view(a_, a), view(b_, b), relu_, view(output(), y));
  }
  void backward(const float* y, const float* dy, float* da, float* db) override {
    sum_backward(view(output(), y), view(output(), dy), relu_, view(a_, da), view(b_, db));
  }

 private:
  Activation a_, b_;
  bool relu_;
};

class PlainLoss final : public Loss {
 public:
  explicit PlainLoss(const Shape& logits)
      : batch_(logits.batch), classes_(static_cast<int>(logits.sample_size())) {}

  void evaluate(const float* logits, const std::int32_t* labels, int count, LossValue* value) override {
    STARLING_CHECK(count >= 0 && count <= batch_);
    *value = softmax_cross_entropy<float>(logits, labels, classes_, count, nullptr);
  }
  void train(const float* logits, const std::int32_t* labels, float* dlogits, LossValue* value) override {
    *value = softmax_cross_entropy(logits, labels, classes_, batch_, dlogits);
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

  std::unique_ptr<Operation> make(Queue& /*queue*/, std::span<const OperationSpec> rest,
                                  const Activation& input, Passes passes) const override {
    STARLING_CHECK(!rest.empty());
    return std::visit(
        [&]<class Spec>(const Spec& spec) -> std::unique_ptr<Operation> {
          return std::make_unique<PlainOperation<Spec>>(spec, input, passes);
        },
        rest[0]);
  }

  std::unique_ptr<Sum> make_sum(Queue& /*queue*/, const Activation& a, const Activation& b,
                                bool relu) const override {
    STARLING_CHECK(a.shape == b.shape);
    return std::make_unique<PlainSum>(a, b, relu);
  }

  std::unique_ptr<Loss> softmax_cross_entropy(Queue& /*queue*/, const Activation& logits) const override {
    return std::make_unique<PlainLoss>(logits.shape);
  }

  void accumulate(Queue& /*queue*/, const Activation& activation, float* gradient,
                  const float* more) const override {
    for (std::size_t i = 0; i < activation.floats; ++i) gradient[i] += more[i];
  }

  void pack(Queue& /*queue*/, const Activation& activation, const float* plain,
            float* stored) const override {
    copy(images(plain, activation.shape), view(activation, stored));
  }
  void unpack(Queue& /*queue*/, const Activation& activation, const float* stored,
              float* plain) const override {
    copy(view(activation, stored), images(plain, activation.shape));
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace starling::kernels::reference
