#include "kernels/cpu/operations.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/formats/format.h"
#include "kernels/cpu/vectors/vector_loops.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu {
namespace {

// Elementwise over the stored values, of T: padding stays 0.
template <class T>
class ElementwiseSum final : public Sum {
 public:
  ElementwiseSum(const Activation& a, const Activation& b, const Activation& y, bool relu)
      : Sum(y), relu_(relu), a_(a, y), b_(b, y), da_(y, a), db_(y, b), size_(stored<T>(y)) {}

  void forward(const float* a, const float* b, float* y) override {
    const T* first = values<T>(a_.convert(a));
    const T* second = values<T>(b_.convert(b));
    if (relu_) {
      add_relu(first, second, values<T>(y), size_);
    } else {
      add(first, second, values<T>(y), size_);
    }
  }

  void backward(const float* y, const float* dy, float* da, float* db) override {
    // If a conversion follows, its input is in its buffer.
    float* to_a = da_.target(da);
    if (relu_ && !db_.needed()) {
      mask_to_both(values<T>(y), values<T>(dy), values<T>(to_a), values<T>(db), size_);
    } else {
      if (relu_) mask_where_not_positive(values<T>(y), values<T>(dy), values<T>(to_a), size_);
      if (!relu_ && to_a != dy) std::copy_n(dy, output().floats, to_a);
      if (db_.needed()) db_.convert(to_a, db);
      if (!db_.needed() && db != to_a) std::copy_n(to_a, output().floats, db);
    }
    da_.finish(da);
  }
  bool works_in_place() const override { return !da_.needed() && !db_.needed(); }

  std::size_t workspace_bytes() const override {
    return a_.workspace_bytes() + b_.workspace_bytes() + da_.workspace_bytes() + db_.workspace_bytes();
  }

 private:
  bool relu_;
  Conversion a_, b_, da_, db_;
  std::size_t size_;
};

}  // namespace

std::unique_ptr<Sum> make_sum(const Activation& a, const Activation& b, bool relu) {
  STARLING_CHECK(a.shape == b.shape);
  const bool window = as_plain(a) != nullptr && !is_dense_plain(a);
  const Activation y = window ? plain_activation(a.shape) : a;
  if (is_bf16(y)) return std::make_unique<ElementwiseSum<Bfloat16>>(a, b, y, relu);
  return std::make_unique<ElementwiseSum<float>>(a, b, y, relu);
}

}  // namespace starling::kernels::cpu
