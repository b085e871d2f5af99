#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cpu/conversion.h"
#include "kernels/cpu/operations.h"
#include "kernels/cpu/sequences/loops.h"
#include "kernels/plain.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/dropout.h"

namespace starling::kernels::cpu {
namespace {

using namespace sequences;  // NOLINT: the loops that this file is about
using reference::DropoutDraw;

// The queries, and the keys, that are in work at the same time. kKeys is a multiple of kQueries.
constexpr int kQueries = 16, kKeys = 128;

int padded(int floats) { return (floats + 15) / 16 * 16; }

// Attention with an online softmax (Milakov and Gimelshein, 2018; Dao et al., "FlashAttention", NeurIPS
// 2022): for kQueries queries at a time it holds the weights of kKeys keys. From the forward to the backward
// pass it keeps one float for each row, the logarithm of the softmax's denominator, and computes the weights
// again.
class TiledAttention final : public Operation {
 public:
  TiledAttention(const AttentionSpec& spec, const Activation& input, Passes passes)
      : Operation(plain_activation(output_shape(spec, input.shape)), 1),
        spec_(spec),
        drops_(passes.backward && spec.dropout > 0),
        size_(spec.head_size(input.shape)),
        context_(spec.context),
        sequences_(input.shape.batch / spec.context),
        x_row_(input.shape.channels),
        y_row_(output().shape.channels),
        columns_(padded(spec.context)),
        x_(input, plain_activation(input.shape)),
        dx_(plain_activation(input.shape), input),
        denominators_(passes.backward ? static_cast<std::size_t>(input.shape.batch * spec.heads) : 0) {
    if (rotates()) make_angles();
  }

  void forward(const float*, const float* x, float* y) override {
    ++draws_;
    run(x_.convert(x), y);
  }
  void forward_again(const float*, const float* x, float* y) override { run(x_.convert(x), y); }

  void backward(const float*, const float* x, const float* y, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    x = x_.converted(x);
    float* to = dx_.target(dx);
    for (int sequence = 0; sequence < sequences_; ++sequence) {
      for (int group = 0; group < spec_.groups; ++group) group_backward(sequence, group, x, y, dy, to);
    }
    dx_.finish(dx);
  }

  void set_draws(std::uint64_t draws) override { draws_ = draws; }

  std::size_t workspace_bytes() const override {
    return x_.workspace_bytes() + dx_.workspace_bytes() +
           (denominators_.size() + cosines_.size() + sines_.size()) * sizeof(float);
  }

  std::size_t scratch_floats() const override {
    const auto rows = static_cast<std::size_t>(context_), size = static_cast<std::size_t>(size_);
    return 2 * size * static_cast<std::size_t>(columns_) + 2 * rows * size +
           3 * std::size_t{kQueries * kKeys};
  }
  void set_scratch(float* scratch) override {
    const std::ptrdiff_t turned = std::ptrdiff_t{size_} * columns_,
                         vectors = std::ptrdiff_t{context_} * size_;
    keys_turned_ = scratch;
    values_turned_ = keys_turned_ + turned;
    queries_ = values_turned_ + turned;
    keys_ = queries_ + vectors;
    weights_ = keys_ + vectors;
    gradients_ = weights_ + std::ptrdiff_t{kQueries * kKeys};
    dropped_ = gradients_ + std::ptrdiff_t{kQueries * kKeys};
  }

 private:
  // Vectors of size_ floats, one for each position.
  struct Vectors {
    const float* first;
    std::ptrdiff_t row;
    const float* at(int i) const { return first + i * row; }
  };
  struct Tile {
    int query, queries, key, keys;
    int valid(int i) const { return std::min(keys, query + i + 1 - key); }  // of row i: keys up to the query
  };

  bool rotates() const { return spec_.rotary_base > 0; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(size_)); }
  std::ptrdiff_t first_row(int sequence) const { return std::ptrdiff_t{sequence} * context_; }

  void make_angles() {
    const int half = size_ / 2;
    for (int i = 0; i < context_; ++i) {
      for (int f = 0; f < half; ++f) {
        const double angle = i * std::pow(static_cast<double>(spec_.rotary_base), -2.0 * f / size_);
        cosines_.push_back(static_cast<float>(std::cos(angle)));
        sines_.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }

  // to = the vectors, rotated by their positions, or back if `direction` is -1.
  void rotate(Vectors from, float direction, float* to, std::ptrdiff_t to_row) const {
    const int half = size_ / 2;
    for (int i = 0; i < context_; ++i) {
      const float *cosine = &cosines_[static_cast<std::size_t>(i * half)],
                  *sine = &sines_[static_cast<std::size_t>(i * half)], *x = from.at(i);
      float* y = to + i * to_row;
      for (int f = 0; f < half; ++f) {
        const float a = x[f], b = x[f + half], s = direction * sine[f];
        y[f] = a * cosine[f] - b * s;
        y[f + half] = a * s + b * cosine[f];
      }
    }
  }
  // Rotated if the spec says so, into `room`.
  Vectors positioned(Vectors vectors, float* room) const {
    if (!rotates()) return vectors;
    rotate(vectors, 1, room, size_);
    return {room, size_};
  }

  Vectors part(const float* x, int sequence, int begin) const {
    return {x + first_row(sequence) * x_row_ + begin, x_row_};
  }

  // weights_[i,j] = q[i] . k[j] / sqrt(size)
  void scores(const Tile& tile, Vectors queries) {
    loops().multiply({tile.queries, tile.keys, size_, queries.at(tile.query), queries.row, 1,
                      keys_turned_ + tile.key, columns_, weights_, kKeys, false});
  }

  template <class F>
  void for_tiles(int query, const F& f) const {
    const int queries = std::min(kQueries, context_ - query), end = query + queries;
    for (int key = 0; key < end; key += kKeys) f(Tile{query, queries, key, std::min(kKeys, end - key)});
  }

  Drop drop_of(int sequence, int head, int i, int key) const {
    const DropoutDraw draw(DropoutSpec{spec_.dropout, spec_.seed}, draws_ - 1);
    const auto row =
        (static_cast<std::uint32_t>(spec_.drawn_head(sequence, head)) * static_cast<std::uint32_t>(context_) +
         static_cast<std::uint32_t>(i)) *
        static_cast<std::uint32_t>(context_);
    return {{draw.key[0], draw.key[1]},
            draw.dropped,
            row + static_cast<std::uint32_t>(key),
            1 / (1 - spec_.dropout)};
  }

  void run(const float* x, float* y) {
    for (int sequence = 0; sequence < sequences_; ++sequence) {
      for (int head = 0; head < spec_.heads; ++head) {
        const auto place = reference::place_of(spec_, size_, head);
        const Vectors queries = positioned(part(x, sequence, place.q), queries_);
        const Vectors values = part(x, sequence, place.v);
        if (head % (spec_.heads / spec_.groups) == 0)
          turn_keys(positioned(part(x, sequence, place.k), keys_));
        for (int query = 0; query < context_; query += kQueries)
          attend(sequence, head, query, queries, values, y + first_row(sequence) * y_row_ + head * size_);
      }
    }
  }
  void turn_keys(Vectors keys) {
    loops().transpose(context_, size_, keys.first, keys.row, scale(), keys_turned_, columns_);
  }

  // The result of kQueries queries; `y` is that of position 0.
  void attend(int sequence, int head, int query, Vectors queries, Vectors values, float* y) {
    float largest[kQueries], sum[kQueries] = {};
    for_tiles(query, [&](const Tile& tile) {
      scores(tile, queries);
      for (int i = 0; i < tile.queries; ++i) {
        const int valid = tile.valid(i);
        float *row = weights_ + i * kKeys, *out = y + (query + i) * std::ptrdiff_t{y_row_};
        const float most = loops().largest(valid, row);
        const float now = tile.key == 0 ? most : std::max(largest[i], most);
        const float keep = tile.key == 0 ? 0 : std::exp(largest[i] - now);
        sum[i] = keep * sum[i] + loops().exponentials(valid, row, now);
        largest[i] = now;
        std::fill(row + valid, row + tile.keys, 0.0F);
        if (tile.key > 0) loops().scale(size_, out, keep);
        if (drops_) loops().drop(valid, row, drop_of(sequence, head, query + i, tile.key), row);
      }
      loops().multiply({tile.queries, size_, tile.keys, weights_, kKeys, 1, values.at(tile.key), values.row,
                        y + query * std::ptrdiff_t{y_row_}, y_row_, tile.key > 0});
    });
    for (int i = 0; i < std::min(kQueries, context_ - query); ++i) {
      loops().scale(size_, y + (query + i) * std::ptrdiff_t{y_row_}, 1 / sum[i]);
      if (!denominators_.empty()) denominator(sequence, head, query + i) = largest[i] + std::log(sum[i]);
    }
  }

  float& denominator(int sequence, int head, int i) {
    return denominators_[static_cast<std::size_t>((first_row(sequence) * spec_.heads) +
                                                  std::ptrdiff_t{head} * context_ + i)];
  }

  // All heads of a group, whose gradients of keys and values are added.
  void group_backward(int sequence, int group, const float* x, const float* y, const float* dy, float* dx) {
    const int heads = spec_.heads / spec_.groups;
    const auto first = reference::place_of(spec_, size_, group * heads);
    const Vectors keys = positioned(part(x, sequence, first.k), keys_), values = part(x, sequence, first.v);
    turn_keys(keys);
    loops().transpose(context_, size_, values.first, values.row, 1, values_turned_, columns_);
    float* rows = dx + first_row(sequence) * x_row_;
    for (int i = 0; i < context_; ++i) {
      std::fill_n(rows + i * std::ptrdiff_t{x_row_} + first.k, size_, 0.0F);
      std::fill_n(rows + i * std::ptrdiff_t{x_row_} + first.v, size_, 0.0F);
    }
    for (int head = group * heads; head < (group + 1) * heads; ++head) {
      const auto place = reference::place_of(spec_, size_, head);
      const Vectors queries = positioned(part(x, sequence, place.q), queries_);
      for (int query = 0; query < context_; query += kQueries)
        attend_backward({sequence, head, query}, queries, keys, y, dy, rows + place.q, rows + place.k,
                        rows + place.v);
      if (rotates()) rotate({rows + place.q, x_row_}, -1, rows + place.q, x_row_);
    }
    if (rotates()) rotate({rows + first.k, x_row_}, -1, rows + first.k, x_row_);
  }

  struct Place {
    int sequence, head, query;
  };
  // Gradients of kQueries queries, and what they add to those of keys and values; dq, dk, dv are of position
  // 0.
  void attend_backward(Place at, Vectors queries, Vectors keys, const float* y, const float* dy, float* dq,
                       float* dk, float* dv) {
    const std::ptrdiff_t begin = (first_row(at.sequence)) * y_row_ + at.head * size_;
    const Vectors out{y + begin, y_row_}, dout{dy + begin, y_row_};
    for_tiles(at.query, [&](const Tile& tile) {
      scores(tile, queries);
      loops().multiply({tile.queries, tile.keys, size_, dout.at(tile.query), dout.row, 1,
                        values_turned_ + tile.key, columns_, gradients_, kKeys, false});
      float* weights = drops_ ? dropped_ : weights_;
      for (int i = 0; i < tile.queries; ++i) {
        const int valid = tile.valid(i), query = tile.query + i;
        float *p = weights_ + i * kKeys, *dp = gradients_ + i * kKeys, *used = weights + i * kKeys;
        loops().exponentials(valid, p, denominator(at.sequence, at.head, query));
        if (drops_) {
          const Drop drop = drop_of(at.sequence, at.head, query, tile.key);
          loops().drop(valid, p, drop, used);
          loops().drop(valid, dp, drop, dp);
        }
        std::fill(used + valid, used + tile.keys, 0.0F);
        const float mean = loops().dot(size_, out.at(query), dout.at(query));
        loops().softmax_gradient(valid, p, dp, mean, scale(), dp);
        std::fill(dp + valid, dp + tile.keys, 0.0F);
      }
      loops().multiply({tile.keys, size_, tile.queries, weights, 1, kKeys, dout.at(tile.query), dout.row,
                        dv + tile.key * std::ptrdiff_t{x_row_}, x_row_, true});
      loops().multiply({tile.queries, size_, tile.keys, gradients_, kKeys, 1, keys.at(tile.key), keys.row,
                        dq + tile.query * std::ptrdiff_t{x_row_}, x_row_, tile.key > 0});
      loops().multiply({tile.keys, size_, tile.queries, gradients_, 1, kKeys, queries.at(tile.query),
                        queries.row, dk + tile.key * std::ptrdiff_t{x_row_}, x_row_, true});
    });
  }

  AttentionSpec spec_;
  bool drops_;
  int size_, context_, sequences_, x_row_, y_row_;
  int columns_;  // context_, rounded up
  Conversion x_, dx_;
  std::vector<float> denominators_;  // [sequence, head, position]
  std::vector<float> cosines_, sines_;
  std::uint64_t draws_ = 0;
  // In the scratch: of one group [size_, columns_], of one head [context_, size_], of one tile.
  float *keys_turned_ = nullptr, *values_turned_ = nullptr;
  float *queries_ = nullptr, *keys_ = nullptr;
  float *weights_ = nullptr, *gradients_ = nullptr, *dropped_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_attention(const AttentionSpec& spec, const Activation& input, Passes passes) {
  return std::make_unique<TiledAttention>(spec, input, passes);
}

}  // namespace starling::kernels::cpu
