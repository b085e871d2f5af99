// Where an activation's channels lie, as rows for the loops of loops.h: plain, with the channels last (pixels
// of an image or images of a pixel side by side), or in blocks of 4, 8 or 16 of them: whatever convolutions
// choose.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "kernels/buffer.h"
#include "kernels/cpu/channels/loops.h"
#include "kernels/operation.h"

namespace starling::kernels::cpu::channels {

struct Layout {
  Shape shape;
  std::ptrdiff_t sample_stride, block_stride;
  int blocks;
  int period;        // channels of a block: 1, 4, 8 or 16
  bool interleaved;  // the blocks of a pixel lie side by side
  // Where interleaved: from one of the whole batch's pixels to the next, in the order of memory.
  std::ptrdiff_t pixel_stride;
  Run run;       // one block of one sample
  Run last_run;  // the last block's, which may have fewer channels

  const Run& run_of(int block) const { return block + 1 < blocks ? run : last_run; }
  std::ptrdiff_t at(int sample, int block) const { return sample * sample_stride + block * block_stride; }
  // The channel at a place in a block's rows; one that there is not where a block is filled up.
  int channel(int block, int place) const { return block * period + place % period; }
  std::ptrdiff_t pixels() const { return std::ptrdiff_t{shape.height} * shape.width; }

  // How many blocks to go through at once, where each channel is one thing over the whole batch.
  int together() const { return interleaved ? blocks : 1; }
  // f(block, run, where it begins), so that all samples of the blocks [from, from + together()) come once, in
  // the order of memory as far as may be; or the other way about, for a second pass that begins with what the
  // first one left in cache.
  template <class F>
  void visit(int from, bool second_pass, const F& f) const;
};

template <class F>
void Layout::visit(int from, bool second_pass, const F& f) const {
  if (!interleaved) {
    Run all = run_of(from);
    const std::ptrdiff_t step = second_pass ? -sample_stride : sample_stride;
    if (all.rows == 1 && all.tail == 0) {  // rather one sample of many rows
      all.rows = shape.batch;
      all.step = step;
    } else {
      all.samples = shape.batch;
      all.sample_step = step;
    }
    f(from, all, at(second_pass ? shape.batch - 1 : 0, from));
    return;
  }
  // Of all samples one list of pixels, a few of them at a time.
  constexpr std::ptrdiff_t kFloats = 1 << 12;
  const int pixels_of_all = shape.batch * shape.height * shape.width;
  const int some = static_cast<int>(kFloats / pixel_stride) + 16;
  const int pieces = (pixels_of_all + some - 1) / some;
  for (int piece = 0; piece < pieces; ++piece) {
    const int first = (second_pass ? pieces - 1 - piece : piece) * some;
    for (int block = from; block < from + blocks; ++block) {
      Run rows = run_of(block);
      rows.rows = pixels_of_all - first < some ? pixels_of_all - first : some;
      rows.step = pixel_stride;
      f(block, rows, block * block_stride + first * pixel_stride);
    }
  }
}

// Nothing where it lies in some other way. Strides count values, whatever their number format.
std::optional<Layout> layout_of(const Activation& activation);

// The same values in a format that has a layout: `input` itself, or plain.
Activation with_layout(const Activation& input);
// The same, of float32 values.
Activation with_f32_layout(const Activation& input);

// Floats for each place of each block's row, `times` over.
class Rows {
 public:
  Rows() = default;
  explicit Rows(const Layout& layout, int times = 1)
      : values_(static_cast<std::size_t>(layout.blocks) * static_cast<std::size_t>(times) * kRow) {}

  float* of(int block) { return values_.data() + std::ptrdiff_t{block} * kRow; }
  const float* of(int block) const { return values_.data() + std::ptrdiff_t{block} * kRow; }
  std::size_t bytes() const { return values_.bytes(); }

 private:
  Buffer values_;
};

// The two sums of the loops in double, for each place of a row. Runs are added piece by piece, none so long
// that sums in float would lose digits.
struct Sums {
  double first[kRow] = {}, second[kRow] = {};

  // sum(run, offset, floats) is one of the loops.
  template <class Sum>
  void add(const Run& run, const Sum& sum) {
    constexpr int kTogether = 512;
    const int samples = run.rows < kTogether ? kTogether / (run.rows + 1) : 1;
    Run piece = run;
    for (int n = 0; n < run.samples; n += samples) {
      piece.samples = run.samples - n < samples ? run.samples - n : samples;
      for (int row = 0, rows; row == 0 || row < run.rows; row += rows) {
        rows = run.rows - row > kTogether ? kTogether : run.rows - row;
        piece.rows = rows;
        piece.tail = row + rows == run.rows ? run.tail : 0;
        alignas(64) float floats[2 * kRow] = {};
        sum(piece, n * run.sample_step + row * run.step, floats);
        for (int place = 0; place < kRow; ++place) {
          first[place] += static_cast<double>(floats[place]);
          second[place] += static_cast<double>(floats[kRow + place]);
        }
        if (rows == 0) break;
      }
    }
  }
};

// About the mean of each channel, from its first pixels: what to subtract before squares are summed.
template <class T>
void guess_means(const Layout& layout, int block, const T* x, float* row);

}  // namespace starling::kernels::cpu::channels
