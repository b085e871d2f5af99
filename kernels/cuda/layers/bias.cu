// The bias of convolutions and linear layers, which their libraries do not add: in the forward pass together
// with the ReLU, in the backward pass with the ReLU's gradient.
#include "kernels/cuda/layers/tiles.h"
#include "kernels/cuda/operations.h"

namespace starling::kernels::cuda {
namespace {

template <class L>
__global__ void __launch_bounds__(kThreads, kTogether)
    add_to_channels(Tiles tiles, const float* bias, bool relu, typename L::T* x) {
  constexpr unsigned kValues = L::kValues, kChannels = L::kChannels;
  const Share<L> share(tiles);
  if (!share.any()) return;
  float more[kChannels] = {};
  for (unsigned c = 0; c < kChannels && bias != nullptr; ++c) more[c] = bias[share.channel + c];
  share.each(tiles, [&](unsigned at) {
    float values[kValues];
    load<kValues>(x + at, values);
    for (unsigned v = 0; v < kValues; ++v) {
      const float value = values[v] + more[v % kChannels];
      values[v] = relu && !(value > 0) ? 0.0F : value;
    }
    store<kValues>(values, x + at);
  });
}

template <class L>
__global__ void __launch_bounds__(kThreads, kTogether)
    mask(Tiles tiles, const typename L::T* y, typename L::T* dy) {
  constexpr unsigned kValues = L::kValues;
  const Share<L> share(tiles);
  share.template each<2>(tiles, [&](unsigned at) {
    float values[kValues], d[kValues];
    load<kValues>(y + at, values);
    load<kValues>(dy + at, d);
    for (unsigned v = 0; v < kValues; ++v) d[v] = values[v] > 0 ? d[v] : 0.0F;
    store<kValues>(d, dy + at);
  });
}

// partial: [channels, splits].
template <class L>
__global__ void __launch_bounds__(kThreads, kTogether)
    mask_and_add_up(Tiles tiles, bool relu, const typename L::T* y, typename L::T* dy, float* partial) {
  constexpr unsigned kValues = L::kValues, kChannels = L::kChannels;
  const Share<L> share(tiles);
  float sums[kChannels] = {};
  share.template each<2>(tiles, [&](unsigned at) {
    float d[kValues];
    load<kValues>(dy + at, d);
    if (relu) {
      float values[kValues];
      load<kValues>(y + at, values);
      for (unsigned v = 0; v < kValues; ++v) d[v] = values[v] > 0 ? d[v] : 0.0F;
      store<kValues>(d, dy + at);
    }
    for (unsigned v = 0; v < kValues; ++v) sums[v % kChannels] += d[v];
  });
  sum_members(tiles, share, sums);
  if (share.member != 0 || !share.any()) return;
  for (unsigned c = 0; c < kChannels; ++c)
    partial[(share.channel + c) * tiles.splits + share.split] = sums[c];
}

}  // namespace

void add_bias(Stream& stream, const Activation& activation, const float* bias, bool relu, float* x) {
  if (bias == nullptr && !relu) return;
  const Pattern pattern = channel_pattern(activation, false);
  const Tiles& tiles = pattern.tiles;
  with_lines(pattern, [&]<class L>(L) {
    launch(stream, tiles.blocks(), tiles.threads(), add_to_channels<L>, tiles, bias, relu,
           values<typename L::T>(x));
  });
}

void gather_bias(Stream& stream, const Activation& activation, bool relu, const float* y, float* dy,
                 float* dbias, float* partial) {
  const Pattern pattern = channel_pattern(activation, false);
  const Tiles& tiles = pattern.tiles;
  with_lines(pattern, [&]<class L>(L) {
    using T = typename L::T;
    if (dbias != nullptr) {
      launch_together(stream, tiles.blocks(), tiles.threads(), mask_and_add_up<L>, tiles, relu, values<T>(y),
                      values<T>(dy), partial);
    } else if (relu) {
      launch(stream, tiles.blocks(), tiles.threads(), mask<L>, tiles, values<T>(y), values<T>(dy));
    }
  });
  if (dbias != nullptr) add_up_splits(stream, tiles, partial, dbias);
}

std::size_t partial_floats(const Activation& activation) {
  const Tiles tiles = channel_pattern(activation, false).tiles;
  return std::size_t{tiles.channels} * tiles.splits;
}

}  // namespace starling::kernels::cuda
