// The position of an activation's channels in memory, as rows for the loops of loops.h: plain, with the
// channels last (pixels of an image or images of a pixel side by side), or in blocks of 4, 8 or 16 channels,
// as convolutions choose.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/buffer.h"
#include "kernels/cpu/channels/loops.h"
#include "kernels/operation.h"

namespace starling::kernels::cpu::channels {

struct ChannelLayout {
  Shape shape;
  std::ptrdiff_t sample_stride, block_stride;
  int blocks;
  int period;        // channels of a block: 1, 4, 8 or 16
  bool interleaved;  // the blocks of a pixel lie side by side
  // If interleaved: the distance between neighboring pixels of the whole batch.
  std::ptrdiff_t pixel_stride;
  Run run;       // one block of one sample
  Run last_run;  // of the last block, which may have fewer channels

  const Run& run_of(int block) const { return block + 1 < blocks ? run : last_run; }
  std::ptrdiff_t at(int sample, int block) const { return sample * sample_stride + block * block_stride; }
  // The channel at a place in a block's rows; >= shape.channels in padding.
  int channel(int block, int place) const { return block * period + place % period; }
  std::ptrdiff_t pixels() const { return std::ptrdiff_t{shape.height} * shape.width; }

  // f(place, channel) for each channel of a block and its first place in a row.
  template <class F>
  void for_channels(int block, const F& f) const {
    for (int place = 0; place < period && channel(block, place) < shape.channels; ++place)
      f(place, static_cast<std::size_t>(channel(block, place)));
  }
  // The sum over the places of the channel at `first`; and the same value at all of them.
  double over_channel(const double* places, int first) const {
    double sum = 0;
    for (int place = first; place < kRow; place += period) sum += places[place];
    return sum;
  }
  void set(float* row, int first, double value) const {
    for (int place = first; place < kRow; place += period) row[place] = static_cast<float>(value);
  }

  // The number of blocks to process together if each channel is one unit over the whole batch.
  int together() const { return interleaved ? blocks : 1; }
  // Calls f(block, run, offset) so that all samples of the blocks [from, from + together()) occur once, in
  // the order of memory as far as possible; in the reverse order for a second pass, which then begins with
  // what is in cache.
  template <class F>
  void visit(int from, bool second_pass, const F& f) const;
};

template <class F>
void ChannelLayout::visit(int from, bool second_pass, const F& f) const {
  if (!interleaved) {
    Run all = run_of(from);
    const std::ptrdiff_t step = second_pass ? -sample_stride : sample_stride;
    if (all.rows == 1 && all.tail == 0) {  // as one sample of many rows
      all.rows = shape.batch;
      all.step = step;
    } else {
      all.samples = shape.batch;
      all.sample_step = step;
    }
    f(from, all, at(second_pass ? shape.batch - 1 : 0, from));
    return;
  }
  // One list of the pixels of all samples, some of them at a time.
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

// nullopt for other formats. Strides count values of any number format.
std::optional<ChannelLayout> layout_of(const Activation& activation);

// The same values in a format with a layout: `input` itself, or plain.
Activation with_layout(const Activation& input);
// The same for float32 values.
Activation with_f32_layout(const Activation& input);

// Floats for each place of each block's row, `times` times.
class Rows {
 public:
  Rows() = default;
  explicit Rows(const ChannelLayout& layout, int times = 1)
      : values_(static_cast<std::size_t>(layout.blocks) * static_cast<std::size_t>(times) * kRow) {}

  float* of(int block) { return values_.data() + std::ptrdiff_t{block} * kRow; }
  const float* of(int block) const { return values_.data() + std::ptrdiff_t{block} * kRow; }
  std::size_t bytes() const { return values_.bytes(); }

 private:
  Buffer values_;
};

// The two sums of the loops in double, for each place of a row. Runs are added in pieces, short enough that
// sums in float keep their precision.
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

// An estimate of each channel's mean from its first pixels, to subtract before squares are summed.
template <class T>
void guess_means(const ChannelLayout& layout, int block, const T* x, float* row);

}  // namespace starling::kernels::cpu::channels
