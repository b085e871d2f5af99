// Dropout, and the draws of operations that drop values (draws.h).
#include "kernels/cuda/draws.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/wide.h"
#include "kernels/reference/dropout.h"

namespace starling::kernels::cuda {
namespace {

using reference::DropoutDraw;

__global__ void draw_anew(std::uint64_t seed, Drawn* drawn) {
  drawn->bits = DropoutDraw::key_bits(seed, drawn->count);
  ++drawn->count;
}

// The last draw before is repeated by forward_again().
__global__ void set_count(std::uint64_t seed, std::uint64_t count, Drawn* drawn) {
  drawn->count = count;
  drawn->bits = count == 0 ? 0 : DropoutDraw::key_bits(seed, count - 1);
}

// The index in plain order [batch, channel, place] of V values, beginning with the i-th stored one.
template <unsigned V>
__device__ void plain_indices(float, unsigned i, unsigned, unsigned, unsigned (&to)[V]) {
  for (unsigned v = 0; v < V; ++v) to[v] = i + v;
}
template <unsigned V>
__device__ void plain_indices(Bfloat16, unsigned i, unsigned channels, unsigned places, unsigned (&to)[V]) {
  unsigned c = i % channels, place = i / channels % places;
  const unsigned n = i / channels / places;
  unsigned index = (n * channels + c) * places + place;
  for (unsigned v = 0; v < V; ++v) {
    to[v] = index;
    index += places;
    if (++c < channels) continue;
    // The next pixel's first channel; for the next sample the index continues by one.
    c = 0;
    index -= channels * places - 1;
    if (++place < places) continue;
    place = 0;
    index += (channels - 1) * places;
  }
}

// The layer whose values draw, if these are some of its channels: how many precede them, and how many others
// there are, in values of a sample.
struct Layer {
  unsigned before, others;
};

template <class T>
__global__ void keep_some(unsigned n, unsigned channels, unsigned places, Layer layer, const Drawn* drawn,
                          std::uint32_t dropped, float factor, const T* x, T* y) {
  const DropoutDraw draw(drawn->bits, dropped);
  const auto some = [&]<unsigned V>(unsigned i, float(&values)[V], unsigned(&indices)[V]) {
    plain_indices<V>(T(), i, channels, places, indices);
    load<V>(x + i, values);
    if (layer.others > 0)
      for (unsigned v = 0; v < V; ++v)
        indices[v] += layer.before + indices[v] / (channels * places) * layer.others;
    for (unsigned v = 0; v < V; ++v) values[v] = draw.keeps(indices[v]) ? values[v] * factor : 0.0F;
    store<V>(values, y + i);
  };
  float values[kWide<T>], value[1];
  unsigned indices[kWide<T>], index[1];
  each_wide<kWide<T>>(
      n, [&](unsigned i) { some(i, values, indices); }, [&](unsigned i) { some(i, value, index); });
}

class DeviceDropout final : public Operation {
 public:
  DeviceDropout(Stream& stream, const DropoutSpec& spec, const Activation& input, Passes passes)
      : Operation(activation_like(input, input.shape), 1),
        stream_(stream),
        spec_(spec),
        training_(passes.backward),
        n_(counted(input)),
        draws_(stream, spec.seed, training_) {}

  void forward(const float* parameters, const float* x, float* y) override {
    draws_.next();
    forward_again(parameters, x, y);
  }
  void forward_again(const float*, const float* x, float* y) override {
    if (training_) return mask(x, y);
    const std::size_t bytes = n_ * (is_bf16(output()) ? sizeof(Bfloat16) : sizeof(float));
    check(cudaMemcpyAsync(y, x, bytes, cudaMemcpyDeviceToDevice, stream_.get()), "cudaMemcpyAsync");
  }

  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx != nullptr) mask(dy, dx);
  }

  void set_draws(std::uint64_t draws) override { draws_.set(draws); }

  std::size_t workspace_bytes() const override { return draws_.bytes(); }

 private:
  void mask(const float* x, float* y) {
    const Shape& shape = output().shape;
    const auto channels = static_cast<unsigned>(shape.channels),
               places = static_cast<unsigned>(shape.height * shape.width);
    Layer layer{spec_.first_draw(shape, 0), spec_.first_draw(shape, 1) - spec_.first_draw(shape, 0)};
    layer.others -= channels * places;
    with_type(output(), [&]<class T>(T) {
      launch(stream_, blocks_for(n_ / kWide<T> + 1, kThreads), kThreads, keep_some<T>, n_, channels, places,
             layer, draws_.last(), DropoutDraw::dropped_of(spec_), 1 / (1 - spec_.rate), values<T>(x),
             values<T>(y));
    });
  }

  Stream& stream_;
  DropoutSpec spec_;
  bool training_;
  unsigned n_;
  Draws draws_;
};

}  // namespace

Draws::Draws(Stream& stream, std::uint64_t seed, bool used)
    : stream_(stream), seed_(seed), memory_(stream.device()) {
  if (used) drawn_ = Buffer(sizeof(Drawn) / sizeof(float), memory_);
}

void Draws::next() {
  if (drawn_.size() > 0) launch(stream_, 1, 1, draw_anew, seed_, values<Drawn>(drawn_.data()));
}

void Draws::set(std::uint64_t count) {
  if (drawn_.size() > 0) launch(stream_, 1, 1, set_count, seed_, count, values<Drawn>(drawn_.data()));
}

const Drawn* Draws::last() const { return values<Drawn>(drawn_.data()); }

std::unique_ptr<Operation> make_dropout(Stream& stream, const DropoutSpec& spec, const Activation& input,
                                        Passes passes) {
  return std::make_unique<DeviceDropout>(stream, spec, input, passes);
}

}  // namespace starling::kernels::cuda
