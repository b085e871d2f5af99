// The mean of each channel of each sample, and its gradient, which is equal at all places.
#include "kernels/cuda/layers/tiles.h"
#include "kernels/cuda/operations.h"

namespace starling::kernels::cuda {
namespace {

// y is [samples, channels] in either format.
template <class L>
__global__ void __launch_bounds__(kThreads, kTogether)
    average_places(Tiles tiles, const typename L::T* x, typename L::T* y) {
  constexpr unsigned kValues = L::kValues, kChannels = L::kChannels;
  const Share<L> share(tiles);
  float sums[kChannels] = {};
  share.each(tiles, [&](unsigned at) {
    float values[kValues];
    load<kValues>(x + at, values);
    for (unsigned v = 0; v < kValues; ++v) sums[v % kChannels] += values[v];
  });
  sum_members(tiles, share, sums);
  if (share.member != 0 || !share.any()) return;
  for (float& sum : sums) sum /= static_cast<float>(tiles.places);
  store<kChannels>(sums, y + share.row(tiles));
}

template <class L>
__global__ void __launch_bounds__(kThreads, kTogether)
    spread_over_places(Tiles tiles, const typename L::T* dy, typename L::T* dx) {
  constexpr unsigned kValues = L::kValues, kChannels = L::kChannels;
  const Share<L> share(tiles);
  if (!share.any()) return;
  float d[kChannels];
  load<kChannels>(dy + share.row(tiles), d);
  float values[kValues];
  for (unsigned v = 0; v < kValues; ++v) values[v] = d[v % kChannels] / static_cast<float>(tiles.places);
  share.each(tiles, [&](unsigned at) { store<kValues>(values, dx + at); });
}

class DeviceGlobalAveragePool final : public Operation {
 public:
  DeviceGlobalAveragePool(Stream& stream, const Activation& input)
      : Operation(activation_like(input, output_shape(GlobalAveragePoolSpec{}, input.shape)), 1),
        stream_(stream),
        together_(channel_pattern(input, true, true)),
        apart_(channel_pattern(input, true)) {}

  void forward(const float*, const float* x, float* y) override {
    const Tiles& tiles = together_.tiles;
    with_lines(together_, [&]<class L>(L) {
      using T = typename L::T;
      launch_together(stream_, tiles.blocks(), tiles.threads(), average_places<L>, tiles, values<T>(x),
                      values<T>(y));
    });
  }
  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    const Tiles& tiles = apart_.tiles;
    with_lines(apart_, [&]<class L>(L) {
      using T = typename L::T;
      launch(stream_, tiles.blocks(), tiles.threads(), spread_over_places<L>, tiles, values<T>(dy),
             values<T>(dx));
    });
  }

 private:
  Stream& stream_;
  Pattern together_, apart_;  // a mean needs all places, its gradient is written to each independently
};

}  // namespace

std::unique_ptr<Operation> make_global_average_pool(Stream& stream, const Activation& input) {
  return std::make_unique<DeviceGlobalAveragePool>(stream, input);
}

}  // namespace starling::kernels::cuda
