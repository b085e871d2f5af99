#include "kernels/cpu/operations.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/channels/layout.h"
#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/vectors/vector_loops.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu {
namespace {

using namespace channels;  // NOLINT: the loops that this file is about

// Common to both kinds below. A part is one group of one sample.
class CommonGroupNorm : public Operation {
 public:
  CommonGroupNorm(const GroupNormSpec& spec, const Activation& input, const Activation& output, bool relu)
      : Operation(output, relu ? 2 : 1),
        spec_(spec),
        relu_(relu),
        group_channels_(input.shape.channels / spec.groups),
        x_(input, output),
        dx_(output, input),
        parts_(static_cast<std::size_t>(input.shape.batch * spec.groups)) {}

  std::size_t workspace_bytes() const override {
    return x_.workspace_bytes() + dx_.workspace_bytes() + parts_.size() * sizeof(parts_[0]);
  }

 protected:
  struct NormPart {
    double mean, deviation;  // the square root of variance + epsilon
    float origin() const { return static_cast<float>(mean); }
    double left() const { return mean - static_cast<double>(origin()); }
  };

  NormPart& part(int sample, int group) {
    return parts_[static_cast<std::size_t>(sample * spec_.groups + group)];
  }
  double count() const {
    const Shape& shape = output().shape;
    return static_cast<double>(group_channels_) * shape.height * shape.width;
  }
  NormPart part_of(double mean, double squares) const {
    const double variance = std::max(squares / count(), 0.0);
    return {mean, std::sqrt(variance + static_cast<double>(spec_.epsilon))};
  }

  // dx = p g + q (x - origin) + r from the sums of g and of g (x - origin), where g is scale dy.
  struct Gradient {
    double p, q, r;
  };
  Gradient gradient_of(const NormPart& it, double sum_g, double sum_g_off) const {
    const double s = it.deviation, sum_gu = (sum_g_off - it.left() * sum_g) / s;
    const double q = -sum_gu / (count() * s * s);
    return {1 / s, q, -sum_g / (count() * s) - q * it.left()};
  }

  GroupNormSpec spec_;
  bool relu_;
  int group_channels_;
  Conversion x_, dx_;

 private:
  std::vector<NormPart> parts_;
};

// Vectors: groups are runs of neighboring features. If it is not `centered`, the mean counts as 0: RMS norm.
class VectorGroupNorm final : public CommonGroupNorm {
 public:
  VectorGroupNorm(const GroupNormSpec& spec, const Activation& input, bool relu, bool centered = true)
      : CommonGroupNorm(spec, input, plain_activation(input.shape), relu),
        centered_(centered),
        no_shift_(spec.shift == kNone ? static_cast<std::size_t>(input.shape.channels) : 0),
        no_gradient_(no_shift_.size()) {}

  void forward(const float* parameters, const float* x, float* y) override {
    x = x_.convert(x);
    const int n = group_channels_;
    for_parts([&](int sample, int group, std::ptrdiff_t at) {
      NormPart& it = part(sample, group) = measure(x + at);
      const float* scale = parameters + spec_.scale + group * n;
      const float* shift = (has_shift() ? parameters + spec_.shift : no_shift_.data()) + group * n;
      loops().vectors.affine(n, x + at, it.origin(), static_cast<float>(1 / it.deviation), scale, shift,
                             y + at);
    });
    if (relu_) kernels::cpu::relu(y, y, output().floats);
  }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    x = x_.converted(x);
    if (relu_) mask_where_not_positive(y, dy, dy, output().floats);
    float* to = dx == nullptr ? nullptr : dx_.target(dx);
    float* dshift = has_shift() ? gradient + spec_.shift : no_gradient_.data();
    std::fill_n(gradient + spec_.scale, output().shape.channels, 0.0F);
    std::fill_n(dshift, output().shape.channels, 0.0F);
    const int n = group_channels_;
    for_parts([&](int sample, int group, std::ptrdiff_t at) {
      const NormPart& it = part(sample, group);
      const float* scale = parameters + spec_.scale + group * n;
      const VectorSums sums =
          loops().vectors.gradient_sums(n, x + at, dy + at, it.origin(), static_cast<float>(1 / it.deviation),
                                        scale, gradient + spec_.scale + group * n, dshift + group * n);
      if (to == nullptr) return;
      const auto [p, q, r] =
          gradient_of(it, centered_ ? static_cast<double>(sums.first) : 0, static_cast<double>(sums.second));
      loops().vectors.gradient(n, x + at, dy + at, it.origin(), scale, static_cast<float>(p),
                               static_cast<float>(q), static_cast<float>(r), to + at);
    });
    if (dx != nullptr) dx_.finish(dx);
  }

  std::size_t workspace_bytes() const override {
    return CommonGroupNorm::workspace_bytes() + 2 * no_shift_.size() * sizeof(float);
  }

 private:
  bool has_shift() const { return no_shift_.empty(); }

  // f(sample, group, offset of the part)
  template <class F>
  void for_parts(const F& f) {
    std::ptrdiff_t at = 0;
    for (int sample = 0; sample < output().shape.batch; ++sample) {
      for (int group = 0; group < spec_.groups; ++group, at += group_channels_) f(sample, group, at);
    }
  }

  NormPart measure(const float* x) const {
    const float guess = centered_ ? loops().vectors.mean(group_channels_, x) : 0;
    const VectorSums sums = loops().vectors.moments(group_channels_, x, guess);
    const double first = static_cast<double>(sums.first), off = centered_ ? first / count() : 0;
    return part_of(static_cast<double>(guess) + off, static_cast<double>(sums.second) - first * off);
  }

  bool centered_;
  std::vector<float> no_shift_, no_gradient_;  // in place of an absent shift
};

// Images: sums of each channel of a sample, then of its group's channels.
class ImageGroupNorm final : public CommonGroupNorm {
 public:
  ImageGroupNorm(const GroupNormSpec& spec, const Activation& input, bool relu)
      : CommonGroupNorm(spec, input, with_f32_layout(input), relu),
        layout_(*layout_of(output())),
        sums_(channels() * 2),
        gradients_(channels() * 2),
        guesses_(layout_),
        origin_(layout_, input.shape.batch),
        a_(layout_, input.shape.batch),
        b_(layout_, input.shape.batch),
        p_(layout_),
        q_(layout_),
        r_(layout_) {}

  void forward(const float* parameters, const float* x, float* y) override {
    x = x_.convert(x);
    for (int n = 0; n < layout_.shape.batch; ++n) {
      for (int block = 0; block < layout_.blocks; ++block) {
        const float* at = x + layout_.at(n, block);
        guess_means(layout_, block, x + n * layout_.sample_stride, guesses_.of(block));
        add_up(block, [&](const Run& piece, std::ptrdiff_t offset, float* floats) {
          loops().f32.moments(piece, at + offset, guesses_.of(block), floats);
        });
      }
      for (int group = 0; group < spec_.groups; ++group) part(n, group) = measure(group);
      for (int block = 0; block < layout_.blocks; ++block) {
        layout_.for_channels(block, [&](int place, std::size_t c) {
          const NormPart& it = part(n, static_cast<int>(c) / group_channels_);
          const double a = static_cast<double>(parameters[spec_.scale + c]) / it.deviation;
          const double shift = spec_.shift == kNone ? 0 : static_cast<double>(parameters[spec_.shift + c]);
          layout_.set(origin_.of(row(n, block)), place, static_cast<double>(it.origin()));
          layout_.set(a_.of(row(n, block)), place, a);
          layout_.set(b_.of(row(n, block)), place, shift - a * it.left());
        });
        const std::ptrdiff_t at = layout_.at(n, block);
        loops().f32.affine(layout_.run_of(block), x + at, affine(n, block), y + at);
      }
    }
  }

  void backward(const float* parameters, const float* x, const float*, float* dy, float* dx,
                float* gradient) override {
    x = x_.converted(x);
    float* to = dx == nullptr ? nullptr : dx_.target(dx);
    std::fill(gradients_.begin(), gradients_.end(), 0.0);
    for (int n = 0; n < layout_.shape.batch; ++n) {
      for (int block = 0; block < layout_.blocks; ++block) {
        const std::ptrdiff_t at = layout_.at(n, block);
        add_up(block, [&](const Run& piece, std::ptrdiff_t offset, float* floats) {
          loops().f32.gradient_sums(piece, x + at + offset, dy + at + offset, affine(n, block), floats);
        });
      }
      add_parameters(n);
      if (to != nullptr) finish(n, parameters, x, dy, to);
    }
    for (std::size_t c = 0; c < channels(); ++c) {
      gradient[spec_.scale + c] = static_cast<float>(gradients_[2 * c]);
      if (spec_.shift != kNone) gradient[spec_.shift + c] = static_cast<float>(gradients_[2 * c + 1]);
    }
    if (dx != nullptr) dx_.finish(dx);
  }

  std::size_t workspace_bytes() const override {
    return CommonGroupNorm::workspace_bytes() + (sums_.size() + gradients_.size()) * sizeof(double) +
           4 * guesses_.bytes() + 3 * origin_.bytes();
  }

 private:
  std::size_t channels() const { return static_cast<std::size_t>(output().shape.channels); }
  int row(int n, int block) const { return n * layout_.blocks + block; }
  Affine affine(int n, int block) const {
    return {origin_.of(row(n, block)), a_.of(row(n, block)), b_.of(row(n, block)), relu_};
  }

  // Runs one of the loops over a block of a sample; its two sums become the sums of the block's channels.
  template <class Sum>
  void add_up(int block, const Sum& sum) {
    Sums sums;
    sums.add(layout_.run_of(block), sum);
    layout_.for_channels(block, [&](int first, std::size_t c) {
      sums_[2 * c] = layout_.over_channel(sums.first, first);
      sums_[2 * c + 1] = layout_.over_channel(sums.second, first);
    });
  }

  double guess(int channel) const {
    return static_cast<double>(guesses_.of(channel / layout_.period)[channel % layout_.period]);
  }
  NormPart measure(int group) const {
    const int first = group * group_channels_;
    const auto pixels = static_cast<double>(layout_.pixels());
    double mean = 0, squares = 0;
    for (int c = first; c < first + group_channels_; ++c) {
      mean += (guess(c) + sums_[2 * static_cast<std::size_t>(c)] / pixels) / group_channels_;
    }
    // The squares about the group's mean, from those about each channel's guess.
    for (int c = first; c < first + group_channels_; ++c) {
      const double* sum = &sums_[2 * static_cast<std::size_t>(c)];
      const double moved = guess(c) - mean;
      squares += sum[1] + 2 * moved * sum[0] + moved * moved * pixels;
    }
    return part_of(mean, squares);
  }

  void add_parameters(int n) {
    for (std::size_t c = 0; c < channels(); ++c) {
      const NormPart& it = part(n, static_cast<int>(c) / group_channels_);
      gradients_[2 * c] += (sums_[2 * c + 1] - it.left() * sums_[2 * c]) / it.deviation;
      gradients_[2 * c + 1] += sums_[2 * c];
    }
  }

  // dx of a sample from its channels' sums of dy and of dy (x - origin).
  void finish(int n, const float* parameters, const float* x, const float* dy, float* dx) {
    const float* scale = parameters + spec_.scale;
    for (int group = 0; group < spec_.groups; ++group) {
      double sum_g = 0, sum_g_off = 0;
      for (int c = group * group_channels_; c < (group + 1) * group_channels_; ++c) {
        sum_g += static_cast<double>(scale[c]) * sums_[2 * static_cast<std::size_t>(c)];
        sum_g_off += static_cast<double>(scale[c]) * sums_[2 * static_cast<std::size_t>(c) + 1];
      }
      const auto [p, q, r] = gradient_of(part(n, group), sum_g, sum_g_off);
      // p includes the channel's scale; q and r are the group's.
      for (int c = group * group_channels_; c < (group + 1) * group_channels_; ++c) {
        const int block = c / layout_.period, place = c % layout_.period;
        layout_.set(p_.of(block), place, p * static_cast<double>(scale[c]));
        layout_.set(q_.of(block), place, q);
        layout_.set(r_.of(block), place, r);
      }
    }
    for (int block = 0; block < layout_.blocks; ++block) {
      const std::ptrdiff_t at = layout_.at(n, block);
      loops().f32.gradient(layout_.run_of(block), x + at, dy + at, affine(n, block), p_.of(block),
                           q_.of(block), r_.of(block), dx + at);
    }
  }

  ChannelLayout layout_;
  std::vector<double> sums_, gradients_;  // two for each channel
  // 0 in padding channels. origin_, a_ and b_ are of each sample, from the forward pass.
  Rows guesses_, origin_, a_, b_, p_, q_, r_;
};

}  // namespace

std::unique_ptr<Operation> make_group_norm(const GroupNormSpec& spec, const Activation& input, bool relu) {
  if (input.shape.height * input.shape.width == 1)
    return std::make_unique<VectorGroupNorm>(spec, input, relu);
  return std::make_unique<ImageGroupNorm>(spec, input, relu);
}

std::unique_ptr<Operation> make_rms_norm(const RmsNormSpec& spec, const Activation& input) {
  return std::make_unique<VectorGroupNorm>(GroupNormSpec{1, spec.scale, kNone, spec.epsilon}, input, false,
                                           false);
}

}  // namespace starling::kernels::cpu
