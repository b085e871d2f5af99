// Where an activation's channels lie, as rows for the loops of loops.h: plain, with the channels last, or in
// blocks of 4, 8 or 16 of them, which is whatever oneDNN's convolutions choose.
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
  std::ptrdiff_t sample_stride, block_stride;  // floats
  int blocks;
  int period;    // channels of a block: 1, 4, 8 or 16
  Run run;       // one block of one sample
  Run last_run;  // the last block's, which may have fewer channels

  const Run& run_of(int block) const { return block + 1 < blocks ? run : last_run; }
  // The block of all samples; and the same for a second pass, which begins with the last sample.
  Run all_samples(int block) const;
  Run second_pass(int block) const {
    Run all = all_samples(block);
    all.sample_step = -all.sample_step;
    return all;
  }
  std::ptrdiff_t second_pass_at(int block) const {
    const Run all = all_samples(block);
    return at(0, block) + (all.samples - 1) * all.sample_step;
  }
  std::ptrdiff_t at(int sample, int block) const { return sample * sample_stride + block * block_stride; }
  // The channel at a place in a block's rows; one that there is not where a block is filled up.
  int channel(int block, int place) const { return block * period + place % period; }
  std::ptrdiff_t pixels() const { return std::ptrdiff_t{shape.height} * shape.width; }
};

// Nothing where it lies in some other way.
std::optional<Layout> layout_of(const Activation& activation);

// The same values in a format that has a layout: `input` itself, or plain.
Activation with_layout(const Activation& input);

// Floats for each place of each block's row.
class Rows {
 public:
  Rows() = default;
  explicit Rows(const Layout& layout) : values_(static_cast<std::size_t>(layout.blocks) * kRow) {}

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
void guess_means(const Layout& layout, int block, const float* x, float* row);

}  // namespace starling::kernels::cpu::channels
