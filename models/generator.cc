#include "models/generator.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <type_traits>

#include "base/check.h"
#include "kernels/cpu/sequences/loops.h"
#include "kernels/reference/pointwise.h"

namespace starling::models {
namespace {

template <class T>
constexpr bool kGenerates =
    std::is_same_v<T, Embedding> || std::is_same_v<T, Position> || std::is_same_v<T, Linear> ||
    std::is_same_v<T, Attention> || std::is_same_v<T, LayerNorm> || std::is_same_v<T, RmsNorm> ||
    std::is_same_v<T, Gelu> || std::is_same_v<T, Relu> || std::is_same_v<T, Swiglu> ||
    std::is_same_v<T, Dropout> || std::is_same_v<T, Residual>;

// Rotates pairs (f, f + size / 2) as kernels::AttentionSpec says.
void rotate_at(int position, int size, float* x) {
  const int half = size / 2;
  for (int f = 0; f < half; ++f) {
    const double angle = position * std::pow(10'000.0, -2.0 * f / size);
    const auto c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
    const float a = x[f], b = x[f + half];
    x[f] = a * c - b * s;
    x[f + half] = a * s + b * c;
  }
}

int groups_of(const Attention& layer) { return layer.groups == 0 ? layer.heads : layer.groups; }

float dot_of(const float* a, const float* b, std::size_t n) {
  return kernels::cpu::sequences::loops().dot(static_cast<int>(n), a, b);
}

}  // namespace

Result<Generator> Generator::make(const Plan& plan, std::span<const float> parameters) {
  STARLING_CHECK(parameters.size() == plan.layout.arena_size());
  if (plan.spec.input.tokens == 0)
    return Error{"model \"" + plan.spec.name + "\" is not for text, so it cannot write any"};
  for (const LayerInfo& layer : plan.layers) {
    if (!std::visit([]<class T>(const T&) { return kGenerates<T>; }, layer.layer.kind))
      return Error{"model \"" + plan.spec.name + "\": text cannot be generated with " + layer.name +
                   ", a layer \"" + layer.kind + "\""};
  }
  return Generator(plan, parameters);
}

Generator::Generator(const Plan& plan, std::span<const float> parameters)
    : plan_(&plan), parameters_(parameters), caches_(plan.layers.size()) {
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerInfo& layer = plan.layers[i];
    outputs_.emplace_back(static_cast<std::size_t>(layer.output.features()));
    const auto* attention = std::get_if<Attention>(&layer.layer.kind);
    if (attention == nullptr) continue;
    const int size = layer.output.features() / attention->heads;
    caches_[i].resize(static_cast<std::size_t>(context()) *
                      static_cast<std::size_t>(2 * groups_of(*attention) * size));
  }
}

const float* Generator::tensor(const LayerInfo& layer, std::size_t index) const {
  return parameters_.data() + plan_->layout.tensors()[layer.tensors.at(index)].offset;
}

std::span<const float> Generator::read(std::uint32_t token) {
  STARLING_CHECK(token < static_cast<std::uint32_t>(tokens()) && length_ < context());
  for (std::size_t i = 0; i < plan_->layers.size(); ++i) {
    const LayerInfo& info = plan_->layers[i];
    std::vector<float>& y = outputs_[i];
    const auto visit = [&]<class T>(const T& layer) {
      if constexpr (std::is_same_v<T, Embedding>) {
        std::copy_n(tensor(info, 0) + std::size_t{token} * y.size(), y.size(), y.begin());
      } else if constexpr (kGenerates<T>) {
        const std::vector<float>& x = output(info.from);
        if constexpr (std::is_same_v<T, Position>) {
          const float* more = tensor(info, 0) + static_cast<std::size_t>(length_) * y.size();
          std::transform(x.begin(), x.end(), more, y.begin(), std::plus<>());
        } else if constexpr (std::is_same_v<T, Residual>) {
          std::transform(x.begin(), x.end(), output(info.other).begin(), y.begin(), std::plus<>());
        } else if constexpr (std::is_same_v<T, Attention>) {
          attend(layer, x, caches_[i], y);
        } else if constexpr (std::is_same_v<T, Dropout>) {
          y = x;
        } else if constexpr (std::is_same_v<T, Relu>) {
          std::ranges::transform(x, y.begin(), [](float value) { return std::max(value, 0.0F); });
        } else if constexpr (std::is_same_v<T, Gelu>) {
          std::ranges::transform(x, y.begin(), [&](float value) {
            return static_cast<float>(kernels::reference::gelu({layer.tanh}, static_cast<double>(value)));
          });
        } else if constexpr (std::is_same_v<T, Swiglu>) {
          for (std::size_t k = 0; k < y.size(); ++k) y[k] = x[k] / (1 + std::exp(-x[k])) * x[y.size() + k];
        } else {
          compute(layer, info, x, y);
        }
      }
    };
    std::visit(visit, info.layer.kind);
  }
  ++length_;
  return outputs_.back();
}

void Generator::compute(const Linear& layer, const LayerInfo& info, const std::vector<float>& x,
                        std::vector<float>& y) const {
  const float* weight = tensor(info, 0);
  const float* bias = layer.bias && !layer.tied ? tensor(info, 1) : nullptr;
  for (std::size_t o = 0; o < y.size(); ++o)
    y[o] = dot_of(weight + o * x.size(), x.data(), x.size()) + (bias == nullptr ? 0.0F : bias[o]);
}

void Generator::compute(const LayerNorm& layer, const LayerInfo& info, const std::vector<float>& x,
                        std::vector<float>& y) const {
  const auto n = static_cast<double>(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double variance = 0;
  for (const float value : x)
    variance += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean) / n;
  const double factor = 1 / std::sqrt(variance + layer.epsilon);
  const float* scale = tensor(info, 0);
  const float* shift = layer.bias ? tensor(info, 1) : nullptr;
  for (std::size_t c = 0; c < x.size(); ++c)
    y[c] = static_cast<float>((static_cast<double>(x[c]) - mean) * factor) * scale[c] +
           (shift == nullptr ? 0.0F : shift[c]);
}

void Generator::compute(const RmsNorm& layer, const LayerInfo& info, const std::vector<float>& x,
                        std::vector<float>& y) const {
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  const auto factor =
      static_cast<float>(1 / std::sqrt(squares / static_cast<double>(x.size()) + layer.epsilon));
  const float* scale = tensor(info, 0);
  for (std::size_t c = 0; c < x.size(); ++c) y[c] = x[c] * factor * scale[c];
}

// x has the queries, the key and the value of the new token; the cache has the earlier tokens' keys, then
// values.
void Generator::attend(const Attention& layer, std::vector<float> x, std::vector<float>& cache,
                       std::vector<float>& y) const {
  const int groups = groups_of(layer);
  const auto size = y.size() / static_cast<std::size_t>(layer.heads);
  const std::size_t row = 2 * static_cast<std::size_t>(groups) * size, keys = row / 2;
  if (layer.rotary) {
    for (int h = 0; h < layer.heads + groups; ++h)
      rotate_at(length_, static_cast<int>(size), x.data() + static_cast<std::size_t>(h) * size);
  }
  std::copy(x.begin() + static_cast<std::ptrdiff_t>(y.size()), x.end(),
            cache.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(length_) * row));
  const float scale = 1 / std::sqrt(static_cast<float>(size));
  std::vector<float> weights(static_cast<std::size_t>(length_) + 1);
  for (std::size_t h = 0; h < static_cast<std::size_t>(layer.heads); ++h) {
    const std::size_t at = h / static_cast<std::size_t>(layer.heads / groups) * size;
    for (std::size_t j = 0; j < weights.size(); ++j)
      weights[j] = scale * dot_of(x.data() + h * size, cache.data() + j * row + at, size);
    const float largest = *std::ranges::max_element(weights);
    float sum = 0;
    for (float& weight : weights) sum += weight = std::exp(weight - largest);
    float* out = y.data() + h * size;
    std::fill_n(out, size, 0.0F);
    for (std::size_t j = 0; j < weights.size(); ++j) {
      const float *value = cache.data() + j * row + keys + at, weight = weights[j] / sum;
      for (std::size_t f = 0; f < size; ++f) out[f] += weight * value[f];
    }
  }
}

std::uint32_t draw_token(std::span<const float> logits, const Sampling& sampling, Random& random) {
  STARLING_CHECK(!logits.empty() && sampling.temperature >= 0 && sampling.top_k >= 0 && sampling.top_p > 0);
  std::vector<std::uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0U);
  // The most likely first; of equal ones, the lower number.
  const auto likelier = [&](std::uint32_t a, std::uint32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  if (sampling.temperature == 0) return *std::ranges::min_element(order, likelier);
  std::ranges::sort(order, likelier);
  if (sampling.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(sampling.top_k)));
  const auto largest = static_cast<double>(logits[order.front()]);
  std::vector<double> weights;
  double sum = 0;
  for (const std::uint32_t token : order)
    sum +=
        weights.emplace_back(std::exp((static_cast<double>(logits[token]) - largest) / sampling.temperature));
  double kept = 0;
  std::size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < sampling.top_p * sum)) kept += weights[count++];
  double draw = random.uniform() * kept;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (draw < weights[i]) return order[i];
    draw -= weights[i];
  }
  return order[count - 1];
}

}  // namespace starling::models
