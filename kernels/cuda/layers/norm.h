// Common to batch and group normalization. Groups of channels are normalized together, over all samples or
// for each sample separately: one pass over x measures the groups, one writes y; one pass over x and dy adds
// the sums for the gradient, one writes dx. Between the passes a small kernel computes
// coefficients from sums.
//
// y is (x - origin) a + b, where origin is the mean as a float; the rest of the mean is in b. So values far
// from 0 keep their precision. With a ReLU the gradient is derived from x, and y is not read again.
#pragma once

#include "kernels/buffer.h"
#include "kernels/cuda/layers/tiles.h"

namespace starling::kernels::cuda {

// The values of one line's split: their mean is pivot + off, and `squares` is the sum of their squared
// distances from it. Sums about a pivot near the values keep their precision if all are far from 0.
struct Moment {
  float pivot, off, squares;
};
// The sums of d and of d (x - origin) over one channel's split, where d is dy, or 0 where the ReLU is 0.
struct GradientSums {
  float d, d_off;
};
// Of a group.
struct Statistics {
  double mean, variance;  // biased
};

// y = (x - origin) a + b, each [segments, channels].
struct Affine {
  float *origin, *a, *b;
};
// dx = p d + q (x - origin) + r, each [segments, channels].
struct InputGradient {
  float *p, *q, *r;
};

struct NormGroups {
  unsigned segments, groups, channels_each;  // groups of a segment, and channels of a group
  double values;                             // of a group
  float epsilon;
};

// The places of the parameters' gradients, [channels] each. `shift` may be null. Null `mean`: no running
// statistics, whose change is momentum (the batch's - the running).
struct NormGradients {
  float *scale, *shift;
  float* mean = nullptr;
  float* variance = nullptr;
  const float* running_mean = nullptr;
  const float* running_variance = nullptr;
  float momentum = 0;
};

class Norm {
 public:
  // `groups` of neighboring channels; `by_sample`: each sample has its own mean and variance.
  Norm(Stream& stream, const Activation& activation, bool by_sample, int groups, float epsilon, Passes passes,
       bool relu);

  // `scale` and `shift`: [channels]; `shift` may be null.
  void forward(const float* scale, const float* shift, const float* x, float* y);
  // With the given mean and variance, [channels]. REQUIRES: one channel per group, not by_sample.
  void forward_with(const float* mean, const float* variance, const float* scale, const float* shift,
                    const float* x, float* y);
  void backward(const NormGradients& to, const float* scale, const float* x, const float* dy, float* dx);

  std::size_t workspace_bytes() const;

 private:
  void measure(const float* x);
  void apply(const float* x, float* y);

  Stream& stream_;
  bool relu_;
  Pattern measured_;  // a line of it has one mean: a group, or a channel of it
  Pattern channels_;
  NormGroups groups_;
  DeviceMemory memory_;
  Buffer forward_, backward_;  // [3][segments, channels]
  Buffer moments_, sums_, statistics_;
};

}  // namespace starling::kernels::cuda
