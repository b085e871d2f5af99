#include "kernels/cpu/operations.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/channels/layout.h"
#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/formats/format.h"

namespace starling::kernels::cpu {
namespace {

using namespace channels;  // NOLINT: the loops that this file is about

// Processes a block of channels at a time in all samples, so that the second pass, which visits the samples
// backward, finds much of it in cache (interleaved blocks: all of them at a time). y is (x - origin) a + b,
// where origin is the mean as a float; the rest of the mean is in b. The ReLU's gradient is derived from x,
// so y is not read again. T is float or Bfloat16.
template <class T>
class LayoutBatchNorm final : public Operation {
 public:
  LayoutBatchNorm(const BatchNormSpec& spec, const Activation& input, Passes passes, bool relu)
      : Operation(with_layout(input), relu ? 2 : 1),
        spec_(spec),
        passes_(passes),
        relu_(relu),
        layout_(*layout_of(output())),
        x_(input, output()),
        dx_(output(), input),
        origin_(layout_),
        a_(layout_),
        b_(layout_) {
    if (!passes.backward) return;
    p_ = Rows(layout_);
    q_ = Rows(layout_);
    r_ = Rows(layout_);
    sums_.resize(static_cast<std::size_t>(layout_.together()));
    statistics_.resize(static_cast<std::size_t>(input.shape.channels));
  }

  void forward(const float* parameters, const float* in, float* out) override {
    const T* x = values<T>(x_.convert(in));
    T* y = values<T>(out);
    if (!passes_.backward) return apply_running(parameters, x, y);
    for (int from = 0; from < layout_.blocks; from += layout_.together()) {
      measure(from, x);
      for (int block = from; block < from + layout_.together(); ++block) prepare(block, parameters);
      layout_.visit(from, true, [&](int block, const Run& run, std::ptrdiff_t at) {
        loops().rows<T>().affine(run, x + at, affine(block), y + at);
      });
    }
  }

  void backward(const float* parameters, const float* in, const float*, float* dout, float* dx,
                float* gradient) override {
    const T* x = values<T>(x_.converted(in));
    const T* dy = values<T>(dout);
    T* to = dx == nullptr ? nullptr : values<T>(dx_.target(dx));
    for (int from = 0; from < layout_.blocks; from += layout_.together()) {
      add_up(from, [&](int block, std::ptrdiff_t at, const Run& run, float* floats) {
        loops().rows<T>().gradient_sums(run, x + at, dy + at, affine(block), floats);
      });
      for (int block = from; block < from + layout_.together(); ++block)
        finish_sums(block, parameters, gradient);
      if (to == nullptr) continue;
      layout_.visit(from, true, [&](int block, const Run& run, std::ptrdiff_t at) {
        loops().rows<T>().gradient(run, x + at, dy + at, affine(block), p_.of(block), q_.of(block),
                                   r_.of(block), to + at);
      });
    }
    if (dx != nullptr) dx_.finish(dx);
  }

  std::size_t workspace_bytes() const override {
    return x_.workspace_bytes() + dx_.workspace_bytes() + 6 * origin_.bytes() +
           sums_.size() * sizeof(sums_[0]) + statistics_.size() * sizeof(statistics_[0]);
  }

 private:
  struct Statistics {
    double mean, variance;
  };

  Affine affine(int block) const { return {origin_.of(block), a_.of(block), b_.of(block), relu_}; }
  double count() const {
    return static_cast<double>(layout_.shape.batch) * static_cast<double>(layout_.pixels());
  }

  // Runs one of the loops over the blocks beginning with `from` into their sums: sum(block, where, run,
  // floats).
  template <class Sum>
  void add_up(int from, const Sum& sum) {
    std::fill(sums_.begin(), sums_.end(), Sums{});
    layout_.visit(from, false, [&](int block, const Run& run, std::ptrdiff_t at) {
      sums_of(block).add(run, [&](const Run& piece, std::ptrdiff_t offset, float* floats) {
        sum(block, at + offset, piece, floats);
      });
    });
  }
  Sums& sums_of(int block) { return sums_[static_cast<std::size_t>(block % layout_.together())]; }

  void measure(int from, const T* x) {
    for (int block = from; block < from + layout_.together(); ++block) {
      guess_means(layout_, block, x, origin_.of(block));
    }
    add_up(from, [&](int block, std::ptrdiff_t at, const Run& run, float* floats) {
      loops().rows<T>().moments(run, x + at, origin_.of(block), floats);
    });
    for (int block = from; block < from + layout_.together(); ++block) {
      const Sums& sums = sums_of(block);
      layout_.for_channels(block, [&](int place, std::size_t c) {
        const double off = layout_.over_channel(sums.first, place) / count();
        const double squares = layout_.over_channel(sums.second, place) / count();
        statistics_[c] = {static_cast<double>(origin_.of(block)[place]) + off,
                          std::max(squares - off * off, 0.0)};
      });
    }
  }

  void prepare(int block, const float* parameters) {
    layout_.for_channels(block, [&](int place, std::size_t c) {
      set_affine(block, place, parameters, c, statistics_[c].mean, statistics_[c].variance);
    });
  }
  void set_affine(int block, int place, const float* parameters, std::size_t c, double mean,
                  double variance) {
    const double a = static_cast<double>(parameters[spec_.scale + c]) / deviation(variance);
    const auto origin = static_cast<float>(mean);
    layout_.set(origin_.of(block), place, static_cast<double>(origin));
    layout_.set(a_.of(block), place, a);
    layout_.set(b_.of(block), place,
                static_cast<double>(parameters[spec_.shift + c]) - a * (mean - static_cast<double>(origin)));
  }
  double deviation(double variance) const { return std::sqrt(variance + static_cast<double>(spec_.epsilon)); }

  // With u = (x - mean) / deviation and g = scale d, dx = (g - mean of g - u mean of (g u)) / deviation, in
  // the form p d + q (x - origin) + r.
  void finish_sums(int block, const float* parameters, float* gradient) {
    const Sums& sums = sums_of(block);
    layout_.for_channels(block, [&](int place, std::size_t c) {
      const auto [mean, variance] = statistics_[c];
      const double s = deviation(variance), scale = static_cast<double>(parameters[spec_.scale + c]);
      const double left = mean - static_cast<double>(origin_.of(block)[place]);
      const double sum_d = layout_.over_channel(sums.first, place);
      const double sum_du = (layout_.over_channel(sums.second, place) - left * sum_d) / s;
      gradient[spec_.scale + c] = static_cast<float>(sum_du);
      gradient[spec_.shift + c] = static_cast<float>(sum_d);
      const double unbiased = count() > 1 ? variance * (count() / (count() - 1)) : 0;
      const auto momentum = static_cast<double>(spec_.momentum);
      gradient[spec_.mean + c] =
          static_cast<float>(momentum * (mean - static_cast<double>(parameters[spec_.mean + c])));
      gradient[spec_.variance + c] =
          static_cast<float>(momentum * (unbiased - static_cast<double>(parameters[spec_.variance + c])));
      const double per_u = -scale * sum_du / (count() * s);
      layout_.set(p_.of(block), place, scale / s);
      layout_.set(q_.of(block), place, per_u / s);
      layout_.set(r_.of(block), place, -scale * sum_d / (count() * s) - per_u * left / s);
    });
  }

  void apply_running(const float* parameters, const T* x, T* y) {
    for (int block = 0; block < layout_.blocks; ++block) {
      layout_.for_channels(block, [&](int place, std::size_t c) {
        set_affine(block, place, parameters, c, static_cast<double>(parameters[spec_.mean + c]),
                   std::max(static_cast<double>(parameters[spec_.variance + c]), 0.0));
      });
    }
    for (int from = 0; from < layout_.blocks; from += layout_.together()) {
      layout_.visit(from, false, [&](int block, const Run& run, std::ptrdiff_t at) {
        loops().rows<T>().affine(run, x + at, affine(block), y + at);
      });
    }
  }

  BatchNormSpec spec_;
  Passes passes_;
  bool relu_;
  ChannelLayout layout_;
  Conversion x_, dx_;
  Rows origin_, a_, b_, p_, q_, r_;     // 0 in padding channels, and so are y and dx
  std::vector<Sums> sums_;              // of the current blocks
  std::vector<Statistics> statistics_;  // of the batch, for each channel
};

}  // namespace

std::unique_ptr<Operation> make_batch_norm(const BatchNormSpec& spec, const Activation& input, Passes passes,
                                           bool relu) {
  if (is_bf16(with_layout(input)))
    return std::make_unique<LayoutBatchNorm<Bfloat16>>(spec, input, passes, relu);
  return std::make_unique<LayoutBatchNorm<float>>(spec, input, passes, relu);
}

}  // namespace starling::kernels::cpu
