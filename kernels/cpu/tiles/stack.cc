#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "kernels/cpu/tiles/stack.h"

#include <algorithm>

#include "base/bfloat16.h"
#include "base/processor.h"
#include "kernels/cpu/formats/format.h"
#include "kernels/cpu/tiles/packing.h"

namespace starling::kernels::cpu::tiles {
namespace {

// The loops of pools over n adjacent values of one position.

STARLING_FOR_PROCESSORS void set_floats(const Bfloat16* __restrict x, float* __restrict sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] = x[i].value();
}
STARLING_FOR_PROCESSORS void add_floats(const Bfloat16* __restrict x, float* __restrict sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += x[i].value();
}
STARLING_FOR_PROCESSORS void round_scaled(const float* __restrict x, float factor, Bfloat16* __restrict y,
                                          std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = Bfloat16::round(x[i] * factor);
}
STARLING_FOR_PROCESSORS void scale(const Bfloat16* __restrict x, float factor, Bfloat16* __restrict y,
                                   std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = Bfloat16::round(x[i].value() * factor);
}
// most = the larger value; unchanged if both are equal.
STARLING_FOR_PROCESSORS void take_larger(const Bfloat16* __restrict x, Bfloat16* __restrict most,
                                         std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    most[i].bits = x[i].value() > most[i].value() ? x[i].bits : most[i].bits;
}
// dx = the rest of dy where x is the largest; that rest is then 0.
STARLING_FOR_PROCESSORS void hand_out(const Bfloat16* __restrict x, const Bfloat16* __restrict y,
                                      Bfloat16* __restrict left, Bfloat16* __restrict dx, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const bool won = x[i].bits == y[i].bits;
    dx[i].bits = won ? left[i].bits : std::uint16_t{0};
    left[i].bits = won ? std::uint16_t{0} : left[i].bits;
  }
}

// Common to both kinds of pools: windows of positions, each with `values_` values.
class StackPool : public Operation {
 public:
  StackPool(int size, const Activation& input, const Shape& output)
      : Operation(stack(output), 1),
        size_(size),
        in_(input.shape),
        out_(output),
        values_(static_cast<std::size_t>(in_.batch) * static_cast<std::size_t>(in_.channels)) {}

 protected:
  // Calls f(offset of a position of y, offset of a position of x in its window, whether it is the window's
  // first, or last).
  template <class F>
  void for_windows(const F& f) const {
    for (int row = 0; row < out_.height; ++row) {
      for (int column = 0; column < out_.width; ++column) {
        for (int k = 0; k < size_ * size_; ++k) {
          const int i = row * size_ + k / size_, j = column * size_ + k % size_;
          f(at(row * out_.width + column), at(i * in_.width + j), k == 0, k + 1 == size_ * size_);
        }
      }
    }
  }
  std::size_t at(int position) const { return static_cast<std::size_t>(position) * values_; }

  // Rows and columns at the end that no window reads have gradient 0.
  void clear_unread(Bfloat16* dx) const {
    for (int i = 0; i < in_.height; ++i) {
      for (int j = 0; j < in_.width; ++j) {
        if (i < out_.height * size_ && j < out_.width * size_) continue;
        std::fill_n(dx + at(i * in_.width + j), values_, Bfloat16{});
      }
    }
  }

  const int size_;
  const Shape in_, out_;
  const std::size_t values_;
};

class StackAveragePool final : public StackPool {
 public:
  StackAveragePool(int size, const Activation& input, const Shape& output)
      : StackPool(size, input, output), sums_(values_) {}

  void forward(const float*, const float* x, float* y) override {
    for_windows([&](std::size_t out, std::size_t in, bool first, bool last) {
      const Bfloat16* from = values<Bfloat16>(x) + in;
      if (first) {
        set_floats(from, sums_.data(), values_);
      } else {
        add_floats(from, sums_.data(), values_);
      }
      if (last) round_scaled(sums_.data(), share(), values<Bfloat16>(y) + out, values_);
    });
  }

  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    clear_unread(values<Bfloat16>(dx));
    for_windows([&](std::size_t out, std::size_t in, bool, bool) {
      scale(values<Bfloat16>(dy) + out, share(), values<Bfloat16>(dx) + in, values_);
    });
  }

  std::size_t workspace_bytes() const override { return sums_.bytes(); }

 private:
  float share() const { return 1 / static_cast<float>(size_ * size_); }

  Buffer sums_;
};

class StackMaxPool final : public StackPool {
 public:
  using StackPool::StackPool;

  void forward(const float*, const float* x, float* y) override {
    for_windows([&](std::size_t out, std::size_t in, bool first, bool) {
      const Bfloat16* from = values<Bfloat16>(x) + in;
      Bfloat16* to = values<Bfloat16>(y) + out;
      if (first) {
        std::copy_n(from, values_, to);
      } else {
        take_larger(from, to, values_);
      }
    });
  }

  void backward(const float*, const float* x, const float* y, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    clear_unread(values<Bfloat16>(dx));
    for_windows([&](std::size_t out, std::size_t in, bool, bool) {
      hand_out(values<Bfloat16>(x) + in, values<Bfloat16>(y) + out, values<Bfloat16>(dy) + out,
               values<Bfloat16>(dx) + in, values_);
    });
  }
};

class Entrance final : public Operation {
 public:
  explicit Entrance(const Activation& input) : Operation(stack(input.shape), 0) {}

  void forward(const float*, const float* x, float* y) override {
    lanes_to_stack(size(), x, values<Bfloat16>(y));
  }
  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx != nullptr) stack_to_lanes(size(), values<Bfloat16>(dy), dx);
  }

 private:
  StackSize size() const {
    const Shape& shape = output().shape;
    return {shape.height * shape.width, shape.batch, shape.channels};
  }
};

}  // namespace

Activation stack(const Shape& shape) {
  const memory::dim image = shape.channels, column = shape.batch * image, row = shape.width * column;
  return activation(shape, {image_dims(shape), Type::bf16, memory::dims{image, 1, row, column}});
}

bool is_stack(const Activation& activation) {
  return is_bf16(activation) && describe(activation) == describe(stack(activation.shape));
}

std::unique_ptr<Operation> make_entrance(const Activation& input) {
  return std::make_unique<Entrance>(input);
}

std::unique_ptr<Operation> make_pool(const AveragePoolSpec& spec, const Activation& input) {
  return std::make_unique<StackAveragePool>(spec.size, input, output_shape(spec, input.shape));
}

std::unique_ptr<Operation> make_pool(const MaxPoolSpec& spec, const Activation& input) {
  return std::make_unique<StackMaxPool>(spec.size, input, output_shape(spec, input.shape));
}

}  // namespace starling::kernels::cpu::tiles
