// Converts between formats. A thread has one value, and threads follow the order in which they write.
#include "kernels/cuda/operations.h"
#include "kernels/cuda/strides.h"

namespace starling::kernels::cuda {
namespace {

// Values outside the window become 0.
template <class From, class To>
__global__ void convert_values(Walk walk, Extents window, Strides from_strides, const From* from,
                               Strides to_strides, To* to) {
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned index = blockIdx.x * blockDim.x + threadIdx.x; index < walk.n; index += threads) {
    const auto [n, c, i, j] = walk.place(index);
    const bool inside = i < window.height && j < window.width;
    to[to_strides.at(n, c, i, j)] =
        from_float<To>(inside ? to_float(from[from_strides.at(n, c, i, j)]) : 0.0F);
  }
}

void convert(Stream& stream, const Walk& walk, const Activation& from_format, const float* from,
             const Activation& to_format, float* to) {
  with_types(from_format, to_format, [&]<class From, class To>(From, To) {
    launch(stream, blocks_for(walk.n, kThreads), kThreads, convert_values<From, To>, walk,
           used_extents(from_format), strides_of(from_format), values<From>(from), strides_of(to_format),
           values<To>(to));
  });
}

class Entrance final : public Operation {
 public:
  Entrance(Stream& stream, const Activation& input, bool bf16)
      : Operation(bf16 ? bf16_activation(input.shape) : plain_activation(input.shape), 0),
        stream_(stream),
        input_(input) {}

  void forward(const float*, const float* x, float* y) override {
    convert(stream_, walk_used(output()), input_, x, output(), y);
  }
  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx != nullptr) convert(stream_, walk_stored(input_), output(), dy, input_, dx);
  }

 private:
  Stream& stream_;
  Activation input_;
};

// The output has one long row of channels for each sample: as plain images it is what the input is as
// channels last.
class Flatten final : public Operation {
 public:
  Flatten(Stream& stream, const Activation& input)
      : Operation(bf16_activation({input.shape.batch, static_cast<int>(input.shape.sample_size()), 1, 1}), 0),
        stream_(stream),
        walk_(walk_used(input)),
        window_(used_extents(input)),
        channels_last_(strides_of(input)),
        in_order_(strides_of(plain_activation(input.shape))) {}

  void forward(const float*, const float* x, float* y) override {
    Walk walk = walk_;
    walk.channels_last = false;
    launch(stream_, blocks_for(walk.n, kThreads), kThreads, convert_values<Bfloat16, Bfloat16>, walk, window_,
           channels_last_, values<Bfloat16>(x), in_order_, values<Bfloat16>(y));
  }
  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    launch(stream_, blocks_for(walk_.n, kThreads), kThreads, convert_values<Bfloat16, Bfloat16>, walk_,
           window_, in_order_, values<Bfloat16>(dy), channels_last_, values<Bfloat16>(dx));
  }

 private:
  Stream& stream_;
  Walk walk_;
  Extents window_;
  Strides channels_last_, in_order_;
};

}  // namespace

std::unique_ptr<Operation> make_entrance(Stream& stream, const Activation& input, bool bf16) {
  return std::make_unique<Entrance>(stream, input, bf16);
}

std::unique_ptr<Operation> make_flatten(Stream& stream, const Activation& input) {
  return std::make_unique<Flatten>(stream, input);
}

void pack(Stream& stream, const Activation& activation, const float* plain, float* stored) {
  convert(stream, walk_used(activation), plain_activation(activation.shape), plain, activation, stored);
}

void unpack(Stream& stream, const Activation& activation, const float* stored, float* plain) {
  const Activation to = plain_activation(activation.shape);
  convert(stream, walk_used(to), activation, stored, to, plain);
}

}  // namespace starling::kernels::cuda
