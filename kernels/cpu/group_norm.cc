#include "kernels/cpu/group_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/channels/layout.h"
#include "kernels/cpu/conversion.h"
#include "kernels/cpu/vector_loops.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu {
namespace {

using namespace channels;  // NOLINT: the loops that this file is about

// What both kinds below have in common. A part is one group of one sample.
class CommonGroupNorm : public Operation {
 public:
  CommonGroupNorm(const GroupNorm& spec, const Activation& input, const Activation& output, bool relu)
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
  struct Part {
    double mean, deviation;  // the square root of variance + epsilon
    float origin() const { return static_cast<float>(mean); }
    double left() const { return mean - static_cast<double>(origin()); }
  };

  Part& part(int sample, int group) {
    return parts_[static_cast<std::size_t>(sample * spec_.groups + group)];
  }
  double count() const {
    const Shape& shape = output().shape;
    return static_cast<double>(group_channels_) * shape.height * shape.width;
  }
  Part part_of(double mean, double squares) const {
    const double variance = std::max(squares / count(), 0.0);
    return {mean, std::sqrt(variance + static_cast<double>(spec_.epsilon))};
  }

  // dx = p g + q (x - origin) + r from the sums of g and of g (x - origin), g being scale dy.
  struct Gradient {
    double p, q, r;
  };
  Gradient gradient_of(const Part& it, double sum_g, double sum_g_off) const {
    const double s = it.deviation, sum_gu = (sum_g_off - it.left() * sum_g) / s;
    const double q = -sum_gu / (count() * s * s);
    return {1 / s, q, -sum_g / (count() * s) - q * it.left()};
  }

  GroupNorm spec_;
  bool relu_;
  int group_channels_;
  Conversion x_, dx_;

 private:
  std::vector<Part> parts_;
};

// Vectors, whose groups are runs of neighboring features.
class VectorGroupNorm final : public CommonGroupNorm {
 public:
  VectorGroupNorm(const GroupNorm& spec, const Activation& input, bool relu)
      : CommonGroupNorm(spec, input, plain_activation(input.shape), relu) {}

  void forward(const float* parameters, const float* x, float* y) override {
    x = x_.convert(x);
    const int n = group_channels_;
    for_parts([&](int sample, int group, std::ptrdiff_t at) {
      Part& it = part(sample, group) = measure(x + at);
      const float *scale = parameters + spec_.scale + group * n,
                  *shift = parameters + spec_.shift + group * n;
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
    std::fill_n(gradient + spec_.scale, output().shape.channels, 0.0F);
    std::fill_n(gradient + spec_.shift, output().shape.channels, 0.0F);
    const int n = group_channels_;
    for_parts([&](int sample, int group, std::ptrdiff_t at) {
      const Part& it = part(sample, group);
      const float* scale = parameters + spec_.scale + group * n;
      alignas(64) float floats[2 * kRow] = {};
      loops().vectors.gradient_sums(n, x + at, dy + at, it.origin(), static_cast<float>(1 / it.deviation),
                                    scale, floats, gradient + spec_.scale + group * n,
                                    gradient + spec_.shift + group * n);
      if (to == nullptr) return;
      const auto [p, q, r] = gradient_of(it, total(floats), total(floats + kRow));
      loops().vectors.gradient(n, x + at, dy + at, it.origin(), scale, static_cast<float>(p),
                               static_cast<float>(q), static_cast<float>(r), to + at);
    });
    if (dx != nullptr) dx_.finish(dx);
  }

 private:
  // f(sample, group, where the part begins)
  template <class F>
  void for_parts(const F& f) {
    std::ptrdiff_t at = 0;
    for (int sample = 0; sample < output().shape.batch; ++sample) {
      for (int group = 0; group < spec_.groups; ++group, at += group_channels_) f(sample, group, at);
    }
  }

  static double total(const float* row) {
    double sum = 0;
    for (int place = 0; place < kRow; ++place) sum += static_cast<double>(row[place]);
    return sum;
  }

  Part measure(const float* x) const {
    const int n = group_channels_, some = std::min(n, kRow);
    float guess = 0;
    for (int i = 0; i < some; ++i) guess += x[i];
    guess /= static_cast<float>(some);
    alignas(64) float origin[kRow];
    std::fill_n(origin, kRow, guess);
    Sums sums;
    sums.add({n / kRow, kRow, kRow, n % kRow}, [&](const Run& piece, std::ptrdiff_t offset, float* floats) {
      loops().f32.moments(piece, x + offset, origin, floats);
    });
    double first = 0, second = 0;
    for (int place = 0; place < kRow; ++place) {
      first += sums.first[place];
      second += sums.second[place];
    }
    const double off = first / count();
    return part_of(static_cast<double>(guess) + off, second - first * off);
  }
};

// Images: sums of each channel of a sample, then those of its group's channels together.
class ImageGroupNorm final : public CommonGroupNorm {
 public:
  ImageGroupNorm(const GroupNorm& spec, const Activation& input, bool relu)
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
        for_channels(block, [&](int place, int c) {
          const Part& it = part(n, c / group_channels_);
          const double a =
              static_cast<double>(parameters[spec_.scale + static_cast<std::size_t>(c)]) / it.deviation;
          const auto shift = static_cast<double>(parameters[spec_.shift + static_cast<std::size_t>(c)]);
          set(origin_, row(n, block), place, static_cast<double>(it.origin()));
          set(a_, row(n, block), place, a);
          set(b_, row(n, block), place, shift - a * it.left());
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
      gradient[spec_.shift + c] = static_cast<float>(gradients_[2 * c + 1]);
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

  // f(place, channel) for the first place of each channel of a block.
  template <class F>
  void for_channels(int block, const F& f) const {
    for (int place = 0; place < layout_.period; ++place) {
      const int channel = layout_.channel(block, place);
      if (channel < layout_.shape.channels) f(place, channel);
    }
  }
  void set(Rows& rows, int block, int first, double value) const {
    for (int place = first; place < kRow; place += layout_.period)
      rows.of(block)[place] = static_cast<float>(value);
  }

  // The two sums of one of the loops over a block of a sample, into the sums of its channels.
  template <class Sum>
  void add_up(int block, const Sum& sum) {
    Sums sums;
    sums.add(layout_.run_of(block), sum);
    for_channels(block, [&](int first, int c) {
      double* to = &sums_[2 * static_cast<std::size_t>(c)];
      to[0] = to[1] = 0;
      for (int place = first; place < kRow; place += layout_.period) {
        to[0] += sums.first[place];
        to[1] += sums.second[place];
      }
    });
  }

  double guess(int channel) const {
    return static_cast<double>(guesses_.of(channel / layout_.period)[channel % layout_.period]);
  }
  Part measure(int group) const {
    const int first = group * group_channels_;
    const auto pixels = static_cast<double>(layout_.pixels());
    double mean = 0, squares = 0;
    for (int c = first; c < first + group_channels_; ++c) {
      mean += (guess(c) + sums_[2 * static_cast<std::size_t>(c)] / pixels) / group_channels_;
    }
    // Of each channel about the group's mean, from those about its guess.
    for (int c = first; c < first + group_channels_; ++c) {
      const double* sum = &sums_[2 * static_cast<std::size_t>(c)];
      const double moved = guess(c) - mean;
      squares += sum[1] + 2 * moved * sum[0] + moved * moved * pixels;
    }
    return part_of(mean, squares);
  }

  void add_parameters(int n) {
    for (std::size_t c = 0; c < channels(); ++c) {
      const Part& it = part(n, static_cast<int>(c) / group_channels_);
      gradients_[2 * c] += (sums_[2 * c + 1] - it.left() * sums_[2 * c]) / it.deviation;
      gradients_[2 * c + 1] += sums_[2 * c];
    }
  }

  // dx of a sample, from the sums of dy and of dy (x - origin) of its channels.
  void finish(int n, const float* parameters, const float* x, const float* dy, float* dx) {
    const float* scale = parameters + spec_.scale;
    for (int group = 0; group < spec_.groups; ++group) {
      double sum_g = 0, sum_g_off = 0;
      for (int c = group * group_channels_; c < (group + 1) * group_channels_; ++c) {
        sum_g += static_cast<double>(scale[c]) * sums_[2 * static_cast<std::size_t>(c)];
        sum_g_off += static_cast<double>(scale[c]) * sums_[2 * static_cast<std::size_t>(c) + 1];
      }
      const auto [p, q, r] = gradient_of(part(n, group), sum_g, sum_g_off);
      // Each channel's p takes in its scale; q and r are the group's.
      for (int c = group * group_channels_; c < (group + 1) * group_channels_; ++c) {
        const int block = c / layout_.period, place = c % layout_.period;
        set(p_, block, place, p * static_cast<double>(scale[c]));
        set(q_, block, place, q);
        set(r_, block, place, r);
      }
    }
    for (int block = 0; block < layout_.blocks; ++block) {
      const std::ptrdiff_t at = layout_.at(n, block);
      loops().f32.gradient(layout_.run_of(block), x + at, dy + at, affine(n, block), p_.of(block),
                           q_.of(block), r_.of(block), dx + at);
    }
  }

  Layout layout_;
  std::vector<double> sums_, gradients_;  // two of each channel
  // 0 where a block is filled up; origin_, a_ and b_ of each sample, as the forward pass had them
  Rows guesses_, origin_, a_, b_, p_, q_, r_;
};

}  // namespace

std::unique_ptr<Operation> make_group_norm(const GroupNorm& spec, const Activation& input, Passes,
                                           bool relu) {
  if (input.shape.height * input.shape.width == 1)
    return std::make_unique<VectorGroupNorm>(spec, input, relu);
  return std::make_unique<ImageGroupNorm>(spec, input, relu);
}

}  // namespace starling::kernels::cpu
