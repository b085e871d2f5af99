#include "kernels/cpu/channels/layout.h"

#include <algorithm>

#include "kernels/cpu/formats/format.h"
#include "kernels/cpu/lanes/format.h"

namespace starling::kernels::cpu::channels {

std::optional<ChannelLayout> layout_of(const Activation& activation) {
  if (lanes::is_lanes(activation)) return std::nullopt;
  const auto blocked = channel_blocks(describe(activation));
  if (!blocked) return std::nullopt;
  const std::ptrdiff_t sample = blocked->strides[0], channel = blocked->strides[1];
  const std::ptrdiff_t row = blocked->strides[2], column = blocked->strides[3];
  const Shape& shape = activation.shape;
  ChannelLayout layout{shape, sample, channel, 0, blocked->block, false, 0, {}, {}};
  const std::ptrdiff_t pixels = layout.pixels();
  // Strides of dimensions with extent 1 are irrelevant.
  const auto dense = [&](std::ptrdiff_t pixel) {
    return (shape.width == 1 || column == pixel) && (shape.height == 1 || row == pixel * shape.width);
  };
  const bool vectors = pixels == 1 && (channel == 1 || shape.channels == 1);
  const std::ptrdiff_t pixel = vectors ? sample : shape.width > 1 ? column : row;
  const bool channels_last = blocked->block == 1 && (vectors || (channel == 1 && dense(pixel)));
  const bool images_outside = pixel >= shape.channels && (sample == pixels * pixel || shape.batch == 1);
  const bool images_inside = sample >= shape.channels && pixel == shape.batch * sample;
  if (channels_last && (images_outside || images_inside)) {
    layout.period = kRow;
    layout.interleaved = true;
    layout.pixel_stride = images_outside ? pixel : sample;
    layout.run = {static_cast<int>(pixels), pixel, kRow, 0};
  } else if (kRow % blocked->block == 0 && dense(blocked->block)) {
    const std::ptrdiff_t count = pixels * blocked->block;
    layout.run = {static_cast<int>(count / kRow), kRow, kRow, static_cast<int>(count % kRow)};
    layout.blocks = (shape.channels + blocked->block - 1) / blocked->block;
    layout.last_run = layout.run;
    return layout;
  } else {
    return std::nullopt;
  }
  layout.block_stride = kRow;
  layout.blocks = (shape.channels + kRow - 1) / kRow;
  layout.last_run = layout.run;
  layout.last_run.lanes = shape.channels - (layout.blocks - 1) * kRow;
  return layout;
}

Activation with_layout(const Activation& input) {
  return layout_of(input) ? input : plain_activation(input.shape);
}

Activation with_f32_layout(const Activation& input) {
  const Activation same = with_layout(input);
  return is_bf16(same) ? activation(same.shape, in_type(describe(same), memory::data_type::f32)) : same;
}

template <class T>
void guess_means(const ChannelLayout& layout, int block, const T* x, float* row) {
  Run first = layout.run_of(block);
  first.rows = std::min(first.rows, 4);
  if (first.rows > 0) first.tail = 0;
  const float zeros[kRow] = {};
  float floats[2 * kRow] = {};
  loops().rows<T>().moments(first, x + layout.at(0, block), zeros, floats);
  const int lanes = first.rows > 0 ? first.lanes : first.tail;
  const int rows = std::max(first.rows, 1);
  for (int place = 0; place < kRow; ++place) {
    float sum = 0;
    int count = 0;
    for (int k = place % layout.period; k < lanes; k += layout.period) {
      sum += floats[k];
      count += rows;
    }
    row[place] = count > 0 ? sum / static_cast<float>(count) : 0.0F;
  }
}
template void guess_means(const ChannelLayout&, int, const float*, float*);
template void guess_means(const ChannelLayout&, int, const Bfloat16*, float*);

}  // namespace starling::kernels::cpu::channels
