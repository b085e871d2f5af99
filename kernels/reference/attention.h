// Causal attention, as defined beside kernels::AttentionSpec, in plain loops that hold the weights of one
// head of one sequence. Sums are in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/dropout.h"
#include "kernels/reference/image.h"

namespace starling::kernels::reference {

// One head of one sequence: its queries, keys and values [context, size], rotated, in double.
struct Head {
  int context, size;
  std::vector<double> q, k, v;

  double& at(std::vector<double>& of, int i, int f) const {
    return of[static_cast<std::size_t>(i) * static_cast<std::size_t>(size) + static_cast<std::size_t>(f)];
  }
  double at(const std::vector<double>& of, int i, int f) const {
    return of[static_cast<std::size_t>(i) * static_cast<std::size_t>(size) + static_cast<std::size_t>(f)];
  }
  double dot(const std::vector<double>& a, int i, const std::vector<double>& b, int j) const {
    double sum = 0;
    for (int f = 0; f < size; ++f) sum += at(a, i, f) * at(b, j, f);
    return sum;
  }
};

// Where the queries, keys and values of a head begin in a vector.
struct HeadPlace {
  int q, k, v;
};
inline HeadPlace place_of(const AttentionSpec& it, int size, int head) {
  const int group = head / (it.heads / it.groups);
  return {head * size, (it.heads + group) * size, (it.heads + it.groups + group) * size};
}

// Rotates the vectors by their positions; `direction` -1 rotates back.
inline void rotate(const AttentionSpec& it, const Head& head, std::vector<double>& vectors, int direction) {
  if (!(it.rotary_base > 0)) return;
  const int half = head.size / 2;
  for (int i = 0; i < head.context; ++i) {
    for (int f = 0; f < half; ++f) {
      const double angle = i * std::pow(static_cast<double>(it.rotary_base), -2.0 * f / head.size);
      const double c = std::cos(angle), s = direction * std::sin(angle);
      double &a = head.at(vectors, i, f), &b = head.at(vectors, i, f + half);
      const double first = a * c - b * s;
      b = a * s + b * c;
      a = first;
    }
  }
}

template <class T>
Head read_head(const AttentionSpec& it, Images<const T> x, int sequence, int number) {
  const int size = it.head_size(x.shape);
  const HeadPlace place = place_of(it, size, number);
  Head head{it.context, size, {}, {}, {}};
  for (int i = 0; i < it.context; ++i) {
    for (int f = 0; f < size; ++f) {
      head.q.push_back(x.flat(sequence * it.context + i, place.q + f));
      head.k.push_back(x.flat(sequence * it.context + i, place.k + f));
      head.v.push_back(x.flat(sequence * it.context + i, place.v + f));
    }
  }
  rotate(it, head, head.q, 1);
  rotate(it, head, head.k, 1);
  return head;
}

// The weights p[i, 0..i] of position i.
inline std::vector<double> attention_weights(const Head& head, int i) {
  std::vector<double> p;
  const double scale = 1 / std::sqrt(static_cast<double>(head.size));
  for (int j = 0; j <= i; ++j) p.push_back(head.dot(head.q, i, head.k, j) * scale);
  const double largest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& value : p) sum += value = std::exp(value - largest);
  for (double& value : p) value /= sum;
  return p;
}

// The factors by which dropout multiplies the weights: 0 or 1 / (1 - rate).
class AttentionDropout {
 public:
  // `drops`: in training.
  AttentionDropout(const AttentionSpec& it, bool drops, std::uint64_t draws_before)
      : it_(it), drops_(drops && it.dropout > 0), draw_(DropoutSpec{it.dropout, it.seed}, draws_before) {}
  double factor(int sequence, int head, int i, int j) const {
    if (!drops_) return 1;
    const auto index = ((static_cast<std::uint32_t>(it_.drawn_head(sequence, head)) *
                         static_cast<std::uint32_t>(it_.context)) +
                        static_cast<std::uint32_t>(i)) *
                           static_cast<std::uint32_t>(it_.context) +
                       static_cast<std::uint32_t>(j);
    return draw_.keeps(index) ? 1 / (1 - static_cast<double>(it_.dropout)) : 0;
  }

 private:
  const AttentionSpec& it_;
  bool drops_;
  DropoutDraw draw_;
};

template <class T>
void attention_forward(const AttentionSpec& it, const AttentionDropout& dropout, Images<const T> x,
                       Images<T> y) {
  for (int sequence = 0; sequence < x.shape.batch / it.context; ++sequence) {
    for (int h = 0; h < it.heads; ++h) {
      const Head head = read_head(it, x, sequence, h);
      for (int i = 0; i < it.context; ++i) {
        const std::vector<double> p = attention_weights(head, i);
        for (int f = 0; f < head.size; ++f) {
          double sum = 0;
          for (int j = 0; j <= i; ++j)
            sum += dropout.factor(sequence, h, i, j) * p[static_cast<std::size_t>(j)] * head.at(head.v, j, f);
          y.flat(sequence * it.context + i, h * head.size + f) = static_cast<T>(sum);
        }
      }
    }
  }
}

// Adds one head's gradients to the gradients of the queries, keys and values, [context, size] each.
template <class T>
void head_backward(const Head& head, const AttentionDropout& dropout, int sequence, int h, Images<const T> dy,
                   Head& gradient) {
  const double scale = 1 / std::sqrt(static_cast<double>(head.size));
  for (int i = 0; i < head.context; ++i) {
    const std::vector<double> p = attention_weights(head, i);
    std::vector<double> dp(p.size());
    double mean = 0;
    for (int j = 0; j <= i; ++j) {
      const double factor = dropout.factor(sequence, h, i, j), weight = p[static_cast<std::size_t>(j)];
      double sum = 0;
      for (int f = 0; f < head.size; ++f) {
        const double d = dy.flat(sequence * head.context + i, h * head.size + f);
        sum += d * head.at(head.v, j, f);
        head.at(gradient.v, j, f) += factor * weight * d;
      }
      dp[static_cast<std::size_t>(j)] = factor * sum;
      mean += weight * factor * sum;
    }
    for (int j = 0; j <= i; ++j) {
      const double ds = p[static_cast<std::size_t>(j)] * (dp[static_cast<std::size_t>(j)] - mean) * scale;
      for (int f = 0; f < head.size; ++f) {
        head.at(gradient.q, i, f) += ds * head.at(head.k, j, f);
        head.at(gradient.k, j, f) += ds * head.at(head.q, i, f);
      }
    }
  }
}

template <class T>
void attention_backward(const AttentionSpec& it, const AttentionDropout& dropout, Images<const T> x,
                        Images<const T> dy, Images<T> dx) {
  for_each_flat(dx.shape, [&](int n, int c) { dx.flat(n, c) = T{0}; });
  for (int sequence = 0; sequence < x.shape.batch / it.context; ++sequence) {
    for (int h = 0; h < it.heads; ++h) {
      const Head head = read_head(it, x, sequence, h);
      const std::vector<double> zeros(head.q.size());
      Head gradient{head.context, head.size, zeros, zeros, zeros};
      head_backward(head, dropout, sequence, h, dy, gradient);
      rotate(it, gradient, gradient.q, -1);
      rotate(it, gradient, gradient.k, -1);
      const HeadPlace place = place_of(it, head.size, h);
      for (int i = 0; i < it.context; ++i) {
        for (int f = 0; f < head.size; ++f) {
          const int n = sequence * it.context + i;
          dx.flat(n, place.q + f) += static_cast<T>(head.at(gradient.q, i, f));
          dx.flat(n, place.k + f) += static_cast<T>(head.at(gradient.k, i, f));
          dx.flat(n, place.v + f) += static_cast<T>(head.at(gradient.v, i, f));
        }
      }
    }
  }
}

}  // namespace starling::kernels::reference
