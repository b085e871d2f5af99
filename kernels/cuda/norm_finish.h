// The small kernels between a normalization's passes: from what blocks have added up to the coefficients of
// the next pass. They add in double; there is little to add.
#pragma once

#include "kernels/cuda/tiles.h"

namespace starling::kernels::cuda {

// Of the values of one line's split: their mean is pivot + off, and `squares` the sum of their squared
// distances from it. Sums about a pivot among the values lose no digits where all are far from 0.
struct Moment {
  float pivot, off, squares;
};
// Of the values of one channel's split: the sums of d and of d (x - origin), where d is dy, or 0 where the
// ReLU is.
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

// Where the parameters' gradients go, [channels] each. Null `mean`: there are no running statistics, whose
// change would be momentum (the batch's - the running).
struct NormGradients {
  float *scale, *shift;
  float* mean = nullptr;
  float* variance = nullptr;
  const float* running_mean = nullptr;
  const float* running_variance = nullptr;
  float momentum = 0;
};

// moments: [segments, lines of a segment, splits], of whole groups or of their channels.
void finish_moments(Stream& stream, const NormGroups& groups, const Pattern& measured, const Moment* moments,
                    const float* scale, const float* shift, const Affine& to, Statistics* statistics);
void use_statistics(Stream& stream, const NormGroups& groups, const float* mean, const float* variance,
                    const float* scale, const float* shift, const Affine& to);
// sums: [segments, channels, splits]. `dx` null: only the parameters' gradients.
void finish_gradient(Stream& stream, const NormGroups& groups, unsigned splits, const GradientSums* sums,
                     const Statistics* statistics, const float* origin, const float* scale,
                     const InputGradient* dx, const NormGradients& to);

}  // namespace starling::kernels::cuda
