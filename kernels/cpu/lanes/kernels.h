// The inner loops of the lanes format, in which a vector register has one value of as many images as it has
// lanes. An activation is [blocks][channels][height][width][lanes], where a block is `lanes` images. So
// channels need no padding in convolutions (oneDNN computes 24 for 20 and 56 for 50), only weight gradients
// add across lanes, and pools and ReLUs work in registers. The cost: batches are padded to whole blocks.
//
// There is one set of loops for each instruction set (kernels_avx2.cc, kernels_avx512.cc), made from the same
// text (kernels_inl.h). Pointers into lanes-format memory are aligned to a vector.
#pragma once

#include <cstddef>

namespace starling::kernels::cpu::lanes {

// A convolution of stride 1 without padding: [in, height + kernel - 1, width + kernel - 1] to [out, height,
// width].
struct ConvShape {
  int in, out, kernel, height, width;  // height, width: of the output
};

// Gradients of a convolution's output have this many columns of zeros on both sides.
inline constexpr int kMargin = 1;
// The largest kernel that the loops support.
inline constexpr int kKernelMax = 7;

// out[m][n] = start[m] + sum over c of w[c w_c + m w_m] * x[c x_c + n x_n ...], where x and out hold vectors.
struct Product {
  int m, c;
  int n;  // vectors
  const float* w;
  std::ptrdiff_t w_c, w_m;  // floats between neighbors
  const float* x;
  std::ptrdiff_t x_c, x_n;
  float* out;
  std::ptrdiff_t out_m, out_n;
  int last;            // floats to write of the last vector, 1 to lanes
  const float* start;  // m floats, or null for 0
  bool relu;
  bool n_outermost;  // keep a column of x in cache and visit w, not the reverse
};

// Channels are computed in groups of at most `group`, as even as possible: the size of the next one if `left`
// are left. (With few sums at a time the processor waits for each multiply-add, so a small last group would
// be slow.)
constexpr int next_group(int left, int group) {
  const int groups = (left + group - 1) / group;
  return (left + groups - 1) / groups;
}

struct Kernels {
  int lanes;
  int group;  // the largest group of channels

  // to[k][lane] = from[lane sample_stride + k] for k < count, 0 for lanes >= samples; and back.
  void (*pack)(const float* from, std::ptrdiff_t sample_stride, int samples, int count, float* to);
  void (*unpack)(const float* from, int samples, int count, float* to, std::ptrdiff_t sample_stride);

  // For one block. `weight` is [groups of output channels][in][kernel][kernel][channels of the group]; the
  // last group is smaller.
  void (*conv_forward)(const ConvShape&, const float* x, const float* weight, const float* bias, bool relu,
                       float* y);
  // y is the average over 2x2 of the ReLU, [out][height / 2][width / 2]; positive[o][i][j] receives a bit per
  // lane. REQUIRES: height and width are even.
  void (*conv_forward_pooled)(const ConvShape&, const float* x, const float* weight, const float* bias,
                              float* y, unsigned short* positive);

  // The gradient of `channels` planes height x width, with margins, from dy: unchanged, or 0 where y is not
  // positive (y may be null), or from the pooled dy and the bits. Also adds their sums to dbias[channels].
  void (*spread)(int channels, int height, int width, const float* y, const float* dy, float* spread,
                 float* dbias);
  void (*spread_pooled)(int channels, int height, int width, const unsigned short* positive, const float* dy,
                        float* spread, float* dbias);

  // dx of one block. `weight` is [groups of input channels][out][kernel][kernel][channels of the group], with
  // kernels rotated by 180 degrees.
  void (*conv_backward_data)(const ConvShape&, const float* spread, const float* weight, float* dx);
  // Adds one block's part to dweight, [out, in, kernel, kernel], for `channels` outputs that begin at the
  // pointers.
  void (*conv_backward_weight)(const ConvShape&, int channels, const float* x, const float* spread,
                               float* dweight);

  void (*product)(const Product&);

  // `count` vectors; dx = 0 where y is not positive, and may be dy.
  void (*relu)(std::size_t count, const float* x, float* y);
  void (*relu_backward)(std::size_t count, const float* y, const float* dy, float* dx);
};

// The loops for this processor, or null.
const Kernels* kernels();

namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}

}  // namespace starling::kernels::cpu::lanes
