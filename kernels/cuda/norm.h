// What batch and group normalization have in common. Groups of channels are normalized together, over all
// samples or each sample by itself: one pass over x measures the groups, one writes y; one pass over x and dy
// adds up what the gradient needs, one writes dx. Between the passes a small kernel (norm_finish.h) turns
// sums into coefficients.
//
// y is (x - origin) a + b, with the mean, to float's precision, as origin; what is left of the mean goes into
// b. So values far from 0 keep their digits. With a ReLU behind it the gradient is told from x, and y is not
// read again.
#pragma once

#include "kernels/buffer.h"
#include "kernels/cuda/norm_finish.h"
#include "kernels/cuda/tiles.h"

namespace starling::kernels::cuda {

class Norm {
 public:
  // `groups` of neighboring channels; `by_sample`: each sample has its own mean and variance.
  Norm(Stream& stream, const Activation& activation, bool by_sample, int groups, float epsilon, Passes passes,
       bool relu);

  // `scale` and `shift`: [channels].
  void forward(const float* scale, const float* shift, const float* x, float* y);
  // With a mean and a variance that are given, [channels]. REQUIRES: a group has one channel, and not
  // by_sample.
  void forward_with(const float* mean, const float* variance, const float* scale, const float* shift,
                    const float* x, float* y);
  void backward(const NormGradients& to, const float* scale, const float* x, const float* dy, float* dx);

  std::size_t workspace_bytes() const;

 private:
  void measure(const float* x);
  void apply(const float* x, float* y);

  Stream& stream_;
  bool relu_;
  Pattern measured_;  // what is one line of it has one mean: a group, or a channel of it
  Pattern channels_;
  NormGroups groups_;
  DeviceMemory memory_;
  Buffer forward_, backward_;           // [3][segments, channels]
  Buffer moments_, sums_, statistics_;  // see norm_finish.h
};

}  // namespace starling::kernels::cuda
