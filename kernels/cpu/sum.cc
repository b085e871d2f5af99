#include "kernels/cpu/sum.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/conversion.h"
#include "kernels/cpu/vector_loops.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu {
namespace {

// Elementwise over the stored floats: padding stays 0.
class ElementwiseSum final : public Sum {
 public:
  ElementwiseSum(const Activation& a, const Activation& b, const Activation& y, bool relu)
      : Sum(y), relu_(relu), a_(a, y), b_(b, y), da_(y, a), db_(y, b) {}

  void forward(const float* a, const float* b, float* y) override {
    a = a_.convert(a);
    b = b_.convert(b);
    if (relu_) {
      add_relu(a, b, y, output().floats);
    } else {
      add(a, b, y, output().floats);
    }
  }

  void backward(const float* y, const float* dy, float* da, float* db) override {
    // Where a conversion follows, what it reads is in its buffer.
    float* to_a = da_.target(da);
    if (relu_ && !db_.needed()) {
      mask_to_both(y, dy, to_a, db, output().floats);
    } else {
      if (relu_) mask_where_not_positive(y, dy, to_a, output().floats);
      if (!relu_ && to_a != dy) std::copy_n(dy, output().floats, to_a);
      if (db_.needed()) db_.convert(to_a, db);
      if (!db_.needed()) std::copy_n(to_a, output().floats, db);
    }
    da_.finish(da);
  }

  std::size_t workspace_bytes() const override {
    return a_.workspace_bytes() + b_.workspace_bytes() + da_.workspace_bytes() + db_.workspace_bytes();
  }

 private:
  bool relu_;
  Conversion a_, b_, da_, db_;
};

}  // namespace

std::unique_ptr<Sum> make_sum(const Activation& a, const Activation& b, bool relu) {
  STARLING_CHECK(a.shape == b.shape);
  const bool window = as_plain(a) != nullptr && !is_dense_plain(a);
  return std::make_unique<ElementwiseSum>(a, b, window ? plain_activation(a.shape) : a, relu);
}

}  // namespace starling::kernels::cpu
