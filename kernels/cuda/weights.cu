// Copies in other formats: bfloat16 weights, and images with added padding.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"

namespace starling::kernels::cuda {
namespace {

constexpr unsigned kWeightBlock = 256;

__global__ void round_all(const float* from, Bfloat16* to, std::size_t n) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    to[i] = from_float<Bfloat16>(from[i]);
}

// From [rows, a, b] to [rows, b, a]. Filters are small compared with images, so unordered reads come from the
// cache.
template <class From, class To>
__global__ void transpose(const From* from, To* to, std::size_t rows, unsigned a, unsigned b) {
  const std::size_t n = rows * a * b, step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const std::size_t row = i / (std::size_t{a} * b);
    const unsigned inner = static_cast<unsigned>(i % (std::size_t{a} * b));
    const unsigned at_b = inner / a, at_a = inner % a;
    to[i] = from_float<To>(to_float(from[(row * a + at_a) * b + at_b]));
  }
}

struct Frame {
  int channels, height, width;  // of the inner images
  int outer_height, outer_width, above, left;
};

// Every value of the outer images: the inner one's, or 0.
template <class T>
__global__ void enclose_all(Frame it, const T* from, T* to, std::size_t n) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  const int places = it.outer_height * it.outer_width;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const int place = static_cast<int>(i % places);
    const int c = static_cast<int>(i / places % it.channels);
    const int image = static_cast<int>(i / places / it.channels);
    const int row = place / it.outer_width - it.above, column = place % it.outer_width - it.left;
    const bool inside = row >= 0 && row < it.height && column >= 0 && column < it.width;
    to[Order<T>::at(image, c, place, it.channels, places)] =
        inside ? from[Order<T>::at(image, c, row * it.width + column, it.channels, it.height * it.width)]
               : from_float<T>(0.0F);
  }
}

// Every value of the inner images.
template <class T>
__global__ void cut_all(Frame it, const T* from, T* to, std::size_t n) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  const int places = it.height * it.width;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const int place = static_cast<int>(i % places);
    const int c = static_cast<int>(i / places % it.channels);
    const int image = static_cast<int>(i / places / it.channels);
    const int outer = (place / it.width + it.above) * it.outer_width + place % it.width + it.left;
    to[Order<T>::at(image, c, place, it.channels, places)] =
        from[Order<T>::at(image, c, outer, it.channels, it.outer_height * it.outer_width)];
  }
}

Frame frame(const Shape& inner, const Shape& outer, int above, int left) {
  return {inner.channels, inner.height, inner.width, outer.height, outer.width, above, left};
}

}  // namespace

void to_bf16(Stream& stream, const float* from, Bfloat16* to, std::size_t n) {
  launch(stream, blocks_for(n, kWeightBlock), kWeightBlock, round_all, from, to, n);
}

void filters_to_bf16(Stream& stream, const float* from, Bfloat16* to, int out, int in, int places) {
  const auto rows = static_cast<std::size_t>(out);
  launch(stream, blocks_for(rows * in * places, kWeightBlock), kWeightBlock, transpose<float, Bfloat16>, from,
         to, rows, static_cast<unsigned>(in), static_cast<unsigned>(places));
}

void filters_from_bf16(Stream& stream, const Bfloat16* from, float* to, int out, int in, int places) {
  const auto rows = static_cast<std::size_t>(out);
  launch(stream, blocks_for(rows * in * places, kWeightBlock), kWeightBlock, transpose<Bfloat16, float>, from,
         to, rows, static_cast<unsigned>(places), static_cast<unsigned>(in));
}

void enclose(Stream& stream, const Activation& inner, const float* from, const Activation& outer, int above,
             int left, float* to) {
  const std::size_t n = outer.shape.size();
  with_type(outer, [&]<class T>(T) {
    launch(stream, blocks_for(n, kWeightBlock), kWeightBlock, enclose_all<T>,
           frame(inner.shape, outer.shape, above, left), values<T>(from), values<T>(to), n);
  });
}

void cut_out(Stream& stream, const Activation& outer, const float* from, const Activation& inner, int above,
             int left, float* to) {
  const std::size_t n = inner.shape.size();
  with_type(inner, [&]<class T>(T) {
    launch(stream, blocks_for(n, kWeightBlock), kWeightBlock, cut_all<T>,
           frame(inner.shape, outer.shape, above, left), values<T>(from), values<T>(to), n);
  });
}

}  // namespace starling::kernels::cuda
