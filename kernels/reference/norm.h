// Batch, group and RMS normalization, as defined beside their specs, in plain loops. `scale`, `shift` and the
// like are [channels]; a group normalization's `shift` and `dshift` may be null. Sums are in double for any
// T.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/image.h"

namespace starling::kernels::reference {

// Values that are normalized together: some channels of some samples.
struct NormPart {
  int first_sample, samples, first_channel, channels;

  double values(const Shape& shape) const {
    return static_cast<double>(samples) * channels * shape.height * shape.width;
  }
};
inline NormPart channel_of_batch(const Shape& shape, int c) { return {0, shape.batch, c, 1}; }
inline NormPart group_of_sample(const Shape& shape, int groups, int n, int group) {
  const int channels = shape.channels / groups;
  return {n, 1, group * channels, channels};
}

// Calls f(n, c, i, j) for every value of the part.
template <class F>
void for_each(const NormPart& part, const Shape& shape, const F& f) {
  for (int n = part.first_sample; n < part.first_sample + part.samples; ++n) {
    for (int c = part.first_channel; c < part.first_channel + part.channels; ++c) {
      for (int i = 0; i < shape.height; ++i) {
        for (int j = 0; j < shape.width; ++j) f(n, c, i, j);
      }
    }
  }
}

struct Moments {
  double mean = 0, variance = 0;  // biased
};
template <class T>
Moments moments(const NormPart& part, Images<const T> x) {
  const double count = part.values(x.shape);
  Moments m;
  for_each(part, x.shape, [&](int n, int c, int i, int j) { m.mean += x.at(n, c, i, j) / count; });
  for_each(part, x.shape, [&](int n, int c, int i, int j) {
    const double off = x.at(n, c, i, j) - m.mean;
    m.variance += off * off / count;
  });
  return m;
}

template <class T>
void normalize(const NormPart& part, const Moments& m, double epsilon, const T* scale, const T* shift,
               Images<const T> x, Images<T> y) {
  const double factor = 1 / std::sqrt(m.variance + epsilon);
  for_each(part, x.shape, [&](int n, int c, int i, int j) {
    y.at(n, c, i, j) = static_cast<T>(scale[c] * (x.at(n, c, i, j) - m.mean) * factor +
                                      (shift == nullptr ? 0.0 : static_cast<double>(shift[c])));
  });
}

// The gradient through the part's own moments: with u = (x - mean) / sqrt(variance + epsilon) and g = scale
// dy, dx = (g - mean of g - u mean of (g u)) / sqrt(variance + epsilon). Adds to `dscale` and `dshift`.
template <class T>
void normalize_backward(const NormPart& part, double epsilon, const T* scale, Images<const T> x,
                        Images<const T> dy, Images<T> dx, double* dscale, double* dshift) {
  const Moments m = moments(part, x);
  const double factor = 1 / std::sqrt(m.variance + epsilon), count = part.values(x.shape);
  double mean_g = 0, mean_gu = 0;
  for_each(part, x.shape, [&](int n, int c, int i, int j) {
    const double d = dy.at(n, c, i, j), u = (x.at(n, c, i, j) - m.mean) * factor;
    mean_g += scale[c] * d / count;
    mean_gu += scale[c] * d * u / count;
    dscale[c] += d * u;
    dshift[c] += d;
  });
  if (dx.values == nullptr) return;
  for_each(part, x.shape, [&](int n, int c, int i, int j) {
    const double g = scale[c] * static_cast<double>(dy.at(n, c, i, j)),
                 u = (x.at(n, c, i, j) - m.mean) * factor;
    dx.at(n, c, i, j) = static_cast<T>((g - mean_g - u * mean_gu) * factor);
  });
}

// With the batch's moments.
template <class T>
void batch_norm_forward(const BatchNormSpec& it, const T* scale, const T* shift, Images<const T> x,
                        Images<T> y) {
  for (int c = 0; c < x.shape.channels; ++c) {
    const NormPart part = channel_of_batch(x.shape, c);
    normalize(part, moments(part, x), it.epsilon, scale, shift, x, y);
  }
}

// With the running ones.
template <class T>
void batch_norm_apply(const BatchNormSpec& it, const T* scale, const T* shift, const T* mean,
                      const T* variance, Images<const T> x, Images<T> y) {
  for (int c = 0; c < x.shape.channels; ++c) {
    const Moments running{mean[c], std::max(static_cast<double>(variance[c]), 0.0)};
    normalize(channel_of_batch(x.shape, c), running, it.epsilon, scale, shift, x, y);
  }
}

// Reads the running moments and writes the changes to add to them.
template <class T>
void batch_norm_backward(const BatchNormSpec& it, const T* scale, const T* mean, const T* variance,
                         Images<const T> x, Images<const T> dy, Images<T> dx, T* dscale, T* dshift,
                         T* mean_step, T* variance_step) {
  std::vector<double> scale_sums(static_cast<std::size_t>(x.shape.channels)), shift_sums(scale_sums.size());
  for (int c = 0; c < x.shape.channels; ++c) {
    const NormPart part = channel_of_batch(x.shape, c);
    normalize_backward(part, it.epsilon, scale, x, dy, dx, scale_sums.data(), shift_sums.data());
    dscale[c] = static_cast<T>(scale_sums[static_cast<std::size_t>(c)]);
    dshift[c] = static_cast<T>(shift_sums[static_cast<std::size_t>(c)]);
    const Moments m = moments(part, x);
    const double count = part.values(x.shape);
    const double unbiased = count > 1 ? m.variance * (count / (count - 1)) : 0;
    mean_step[c] = static_cast<T>(it.momentum * (m.mean - mean[c]));
    variance_step[c] = static_cast<T>(it.momentum * (unbiased - variance[c]));
  }
}

template <class T>
void group_norm_forward(const GroupNormSpec& it, const T* scale, const T* shift, Images<const T> x,
                        Images<T> y) {
  for (int n = 0; n < x.shape.batch; ++n) {
    for (int group = 0; group < it.groups; ++group) {
      const NormPart part = group_of_sample(x.shape, it.groups, n, group);
      normalize(part, moments(part, x), it.epsilon, scale, shift, x, y);
    }
  }
}

template <class T>
void group_norm_backward(const GroupNormSpec& it, const T* scale, Images<const T> x, Images<const T> dy,
                         Images<T> dx, T* dscale, T* dshift) {
  std::vector<double> scale_sums(static_cast<std::size_t>(x.shape.channels)), shift_sums(scale_sums.size());
  for (int n = 0; n < x.shape.batch; ++n) {
    for (int group = 0; group < it.groups; ++group) {
      normalize_backward(group_of_sample(x.shape, it.groups, n, group), it.epsilon, scale, x, dy, dx,
                         scale_sums.data(), shift_sums.data());
    }
  }
  for (std::size_t c = 0; c < scale_sums.size(); ++c) {
    dscale[c] = static_cast<T>(scale_sums[c]);
    if (dshift != nullptr) dshift[c] = static_cast<T>(shift_sums[c]);
  }
}

// 1 / sqrt(mean square + epsilon) of vector n.
template <class T>
double rms_factor(const RmsNormSpec& it, Images<const T> x, int n) {
  double sum = 0;
  for (int c = 0; c < x.shape.channels; ++c) sum += static_cast<double>(x.flat(n, c)) * x.flat(n, c);
  return 1 / std::sqrt(sum / x.shape.channels + static_cast<double>(it.epsilon));
}

template <class T>
void rms_norm_forward(const RmsNormSpec& it, const T* scale, Images<const T> x, Images<T> y) {
  for (int n = 0; n < x.shape.batch; ++n) {
    const double factor = rms_factor(it, x, n);
    for (int c = 0; c < x.shape.channels; ++c)
      y.flat(n, c) = static_cast<T>(scale[c] * x.flat(n, c) * factor);
  }
}

// With u = x factor and g = scale dy: dx = (g - u mean of (g u)) factor.
template <class T>
void rms_norm_backward(const RmsNormSpec& it, const T* scale, Images<const T> x, Images<const T> dy,
                       Images<T> dx, T* dscale) {
  const int channels = x.shape.channels;
  std::vector<double> sums(static_cast<std::size_t>(channels));
  for (int n = 0; n < x.shape.batch; ++n) {
    const double factor = rms_factor(it, x, n);
    double mean = 0;
    for (int c = 0; c < channels; ++c) {
      const double u = x.flat(n, c) * factor;
      sums[static_cast<std::size_t>(c)] += dy.flat(n, c) * u;
      mean += scale[c] * dy.flat(n, c) * u / channels;
    }
    for (int c = 0; c < channels && dx.values != nullptr; ++c) {
      const double g = scale[c] * static_cast<double>(dy.flat(n, c)), u = x.flat(n, c) * factor;
      dx.flat(n, c) = static_cast<T>((g - u * mean) * factor);
    }
  }
  for (int c = 0; c < channels; ++c) dscale[c] = static_cast<T>(sums[static_cast<std::size_t>(c)]);
}

}  // namespace starling::kernels::reference
