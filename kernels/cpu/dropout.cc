#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "kernels/cpu/operations.h"

#include <algorithm>

#include "base/processor.h"
#include "kernels/cpu/channels/layout.h"
#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/sequences/loops.h"
#include "kernels/plain.h"
#include "kernels/reference/dropout.h"

namespace starling::kernels::cpu {
namespace {

using namespace channels;  // NOLINT: the loops that this file is about
using reference::DropoutDraw;

// y[i] = x[i] factor if the value with index first + i is kept, else 0.
void drop(const float* x, std::uint32_t first, std::size_t n, DropoutDraw draw, float factor, float* y) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  for (std::size_t at = 0; at < n; at += kPiece) {
    const sequences::Drop piece{
        {draw.key[0], draw.key[1]}, draw.dropped, first + static_cast<std::uint32_t>(at), factor};
    sequences::loops().drop(static_cast<int>(std::min(kPiece, n - at)), x + at, piece, y + at);
  }
}

// The same for whole rows. `first` has the 16 indices of the first row; `more` is added from row to row.
STARLING_FOR_PROCESSORS void drop_rows(const float* __restrict x, std::ptrdiff_t step, int rows,
                                       const std::uint32_t* first, std::uint32_t more, DropoutDraw draw,
                                       float factor, float* __restrict y) {
  for (int row = 0; row < rows; ++row, x += step, y += step) {
    const std::uint32_t on = static_cast<std::uint32_t>(row) * more;
    for (int place = 0; place < kRow; ++place) {
      const float value = x[place] * factor;
      y[place] = draw.keeps(first[place] + on) ? value : 0.0F;
    }
  }
}

class LayoutDropout final : public Operation {
 public:
  LayoutDropout(const DropoutSpec& spec, const Activation& input, Passes passes)
      : Operation(with_f32_layout(input), 1),
        spec_(spec),
        training_(passes.backward),
        layout_(*layout_of(output())),
        x_(input, output()),
        dx_(output(), input) {}

  void forward(const float*, const float* x, float* y) override {
    ++draws_;
    run(x, y);
  }
  void forward_again(const float*, const float* x, float* y) override { run(x, y); }

  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    mask(dy, dx_.target(dx));
    dx_.finish(dx);
  }
  bool keeps_dy() const override { return true; }

  void set_draws(std::uint64_t draws) override { draws_ = draws; }

  std::size_t workspace_bytes() const override { return x_.workspace_bytes() + dx_.workspace_bytes(); }

 private:
  void run(const float* x, float* y) {
    x = x_.convert(x);
    if (training_) {
      mask(x, y);
    } else {
      std::copy_n(x, output().floats, y);
    }
  }

  // Applies the mask of the last draw.
  void mask(const float* x, float* y) const {
    const DropoutDraw draw(spec_, draws_ - 1);
    const float factor = 1 / (1 - spec_.rate);
    const bool plain = is_dense_plain(output());
    if (plain && spec_.all_channels == 0) return drop(x, 0, output().floats, draw, factor, y);
    const std::size_t sample_size = layout_.shape.sample_size();
    for (int n = 0; n < layout_.shape.batch; ++n) {
      const std::uint32_t first = spec_.first_draw(layout_.shape, n);
      const std::size_t begin = static_cast<std::size_t>(n) * sample_size;
      if (plain) {
        drop(x + begin, first, sample_size, draw, factor, y + begin);
        continue;
      }
      for (int block = 0; block < layout_.blocks; ++block)
        mask_block(x + layout_.at(n, block), block, first, draw, factor, y + layout_.at(n, block));
    }
  }

  void mask_block(const float* x, int block, std::uint32_t sample, const DropoutDraw& draw, float factor,
                  float* y) const {
    const Run& run = layout_.run_of(block);
    const auto pixels = static_cast<std::uint32_t>(layout_.pixels());
    const auto more = static_cast<std::uint32_t>(kRow / layout_.period);
    std::uint32_t first[kRow];  // arbitrary in padding channels, which are 0
    for (int place = 0; place < kRow; ++place) {
      first[place] = sample + static_cast<std::uint32_t>(layout_.channel(block, place)) * pixels +
                     static_cast<std::uint32_t>(place / layout_.period);
    }
    const int whole = run.lanes == kRow ? run.rows : 0;
    drop_rows(x, run.step, whole, first, more, draw, factor, y);
    for (int row = whole; row < run.rows; ++row)
      mask_some(x, run.lanes, row, run, first, more, draw, factor, y);
    if (run.tail > 0) mask_some(x, run.tail, run.rows, run, first, more, draw, factor, y);
  }
  static void mask_some(const float* x, int count, int row, const Run& run, const std::uint32_t* first,
                        std::uint32_t more, const DropoutDraw& draw, float factor, float* y) {
    for (int place = 0; place < count; ++place) {
      const bool kept = draw.keeps(first[place] + static_cast<std::uint32_t>(row) * more);
      y[row * run.step + place] = kept ? x[row * run.step + place] * factor : 0.0F;
    }
  }

  DropoutSpec spec_;
  bool training_;
  ChannelLayout layout_;
  Conversion x_, dx_;
  std::uint64_t draws_ = 0;
};

}  // namespace

std::unique_ptr<Operation> make_dropout(const DropoutSpec& spec, const Activation& input, Passes passes) {
  return std::make_unique<LayoutDropout>(spec, input, passes);
}

}  // namespace starling::kernels::cpu
