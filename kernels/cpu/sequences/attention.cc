#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/sequences/loops.h"
#include "kernels/cpu/sequences/operations.h"
#include "kernels/plain.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/dropout.h"

namespace starling::kernels::cpu {
namespace {

using namespace sequences;  // NOLINT: the loops that this file is about
using reference::DropoutDraw;

// The keys of a tile, at most: a multiple of kQueries.
constexpr int kKeys = 128;

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
    return 2 * size * kQueries + 3 * std::size_t{kQueries * kKeys} + 2 * rows * size;
  }
  void set_scratch(float* scratch) override {
    const auto next = [&scratch](std::ptrdiff_t floats) { return std::exchange(scratch, scratch + floats); };
    queries_turned_ = next(std::ptrdiff_t{size_} * kQueries);
    dout_turned_ = next(std::ptrdiff_t{size_} * kQueries);
    weights_ = next(kQueries * kKeys);
    gradients_ = next(kQueries * kKeys);
    dropped_ = next(kQueries * kKeys);
    queries_ = next(std::ptrdiff_t{context_} * size_);
    keys_ = next(std::ptrdiff_t{context_} * size_);
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
    WeightTile weights(float* p) const { return {keys, query + 1 - key, p}; }  // keys up to the query
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

  int queries_from(int query) const { return std::min(kQueries, context_ - query); }

  // turned[f, i] = factor vector query + i of `from`, for kQueries vectors: those that are missing are 0.
  void turn(int query, Vectors from, float factor, float* turned) const {
    const int queries = queries_from(query);
    if (queries < kQueries) std::fill_n(turned, size_ * kQueries, 0.0F);
    loops().transpose(queries, size_, from.at(query), from.row, factor, turned, kQueries);
  }
  // products[j, i] = vector j of the tile's keys . vector i of `turned`
  void multiply_turned(const Tile& tile, Vectors vectors, const float* turned, float* products) const {
    loops().multiply({tile.keys, kQueries, size_, vectors.at(tile.key), vectors.row, 1, turned, kQueries,
                      products, kQueries, false});
  }
  // y[i] (+)= sum over j of weights[j, i] vector j of the tile's keys; y is position 0's.
  void mix(const Tile& tile, const float* weights, Vectors vectors, float* y, std::ptrdiff_t y_row) const {
    loops().multiply({tile.queries, size_, tile.keys, weights, 1, kQueries, vectors.at(tile.key), vectors.row,
                      y + tile.query * y_row, y_row, tile.key > 0});
  }
  // y[j] += sum over i of weights[j, i] vector i of the tile's queries; y is position 0's.
  void spread(const Tile& tile, const float* weights, Vectors vectors, float* y, std::ptrdiff_t y_row) const {
    loops().multiply({tile.keys, size_, tile.queries, weights, kQueries, 1, vectors.at(tile.query),
                      vectors.row, y + tile.key * y_row, y_row, true});
  }

  // f(tile) for the keys of kQueries queries.
  template <class F>
  void for_tiles(int query, const F& f) const {
    const int queries = queries_from(query), end = query + queries;
    for (int key = 0; key < end; key += kKeys) f(Tile{query, queries, key, std::min(kKeys, end - key)});
  }

  // `gradients` may be null.
  void drop(int sequence, int head, const Tile& tile, float* dropped, float* gradients) const {
    const DropoutDraw draw(DropoutSpec{spec_.dropout, spec_.seed}, draws_ - 1);
    const auto context = static_cast<std::uint32_t>(context_);
    const auto row = static_cast<std::uint32_t>(spec_.drawn_head(sequence, head)) * context +
                     static_cast<std::uint32_t>(tile.query);
    const Drop it{{draw.key[0], draw.key[1]},
                  draw.dropped,
                  row * context + static_cast<std::uint32_t>(tile.key),
                  1 / (1 - spec_.dropout)};
    loops().drop_weights(tile.weights(weights_), it, context, dropped, gradients);
  }

  void run(const float* x, float* y) {
    for (int sequence = 0; sequence < sequences_; ++sequence) {
      Vectors keys{};
      for (int head = 0; head < spec_.heads; ++head) {
        const auto place = reference::place_of(spec_, size_, head);
        const Vectors queries = positioned(part(x, sequence, place.q), queries_);
        const Vectors values = part(x, sequence, place.v);
        if (head % (spec_.heads / spec_.groups) == 0) keys = positioned(part(x, sequence, place.k), keys_);
        for (int query = 0; query < context_; query += kQueries)
          attend({sequence, head, query}, queries, keys, values,
                 y + first_row(sequence) * y_row_ + head * size_);
      }
    }
  }

  struct Place {
    int sequence, head, query;
  };
  // The result of kQueries queries; `y` is position 0's.
  void attend(Place at, Vectors queries, Vectors keys, Vectors values, float* y) {
    float largest[kQueries], sum[kQueries] = {}, kept[kQueries];
    std::fill_n(largest, kQueries, -std::numeric_limits<float>::infinity());
    const int count = queries_from(at.query);
    float* const rows = y + at.query * std::ptrdiff_t{y_row_};
    turn(at.query, queries, scale(), queries_turned_);
    for_tiles(at.query, [&](const Tile& tile) {
      multiply_turned(tile, keys, queries_turned_, weights_);
      loops().softmax(tile.weights(weights_), largest, sum, kept);
      if (tile.key > 0) loops().scale_rows(count, size_, rows, y_row_, kept);
      if (drops_) drop(at.sequence, at.head, tile, weights_, nullptr);
      mix(tile, weights_, values, y, y_row_);
    });
    for (int i = 0; i < count; ++i) {
      if (!denominators_.empty())
        denominator(at.sequence, at.head, at.query + i) = largest[i] + std::log(sum[i]);
      sum[i] = 1 / sum[i];
    }
    loops().scale_rows(count, size_, rows, y_row_, sum);
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
    float* rows = dx + first_row(sequence) * x_row_;
    for (int i = 0; i < context_; ++i) {
      std::fill_n(rows + i * std::ptrdiff_t{x_row_} + first.k, size_, 0.0F);
      std::fill_n(rows + i * std::ptrdiff_t{x_row_} + first.v, size_, 0.0F);
    }
    for (int head = group * heads; head < (group + 1) * heads; ++head) {
      const auto place = reference::place_of(spec_, size_, head);
      const Vectors queries = positioned(part(x, sequence, place.q), queries_);
      for (int query = 0; query < context_; query += kQueries)
        attend_backward({sequence, head, query}, queries, keys, values, y, dy,
                        {rows + place.q, rows + place.k, rows + place.v});
      if (rotates()) rotate({rows + place.q, x_row_}, -1, rows + place.q, x_row_);
    }
    if (rotates()) rotate({rows + first.k, x_row_}, -1, rows + first.k, x_row_);
  }

  // Of position 0.
  struct Gradients {
    float *q, *k, *v;
  };
  // Gradients of kQueries queries, and what they add to the gradients of keys and values.
  void attend_backward(Place at, Vectors queries, Vectors keys, Vectors values, const float* y,
                       const float* dy, Gradients to) {
    const std::ptrdiff_t begin = first_row(at.sequence) * y_row_ + at.head * size_;
    const Vectors out{y + begin, y_row_}, dout{dy + begin, y_row_};
    const int count = queries_from(at.query);
    float means[kQueries] = {}, denominators[kQueries] = {};
    loops().dot_rows(count, size_, out.at(at.query), out.row, dout.at(at.query), dout.row, means);
    std::copy_n(&denominator(at.sequence, at.head, at.query), count, denominators);
    turn(at.query, queries, scale(), queries_turned_);
    turn(at.query, dout, 1, dout_turned_);
    for_tiles(at.query, [&](const Tile& tile) {
      multiply_turned(tile, keys, queries_turned_, weights_);
      multiply_turned(tile, values, dout_turned_, gradients_);
      const WeightTile weights = tile.weights(weights_);
      loops().softmax_again(weights, denominators);
      if (drops_) drop(at.sequence, at.head, tile, dropped_, gradients_);
      loops().softmax_gradient(weights, means, scale(), gradients_);
      spread(tile, drops_ ? dropped_ : weights_, dout, to.v, x_row_);
      mix(tile, gradients_, keys, to.q, x_row_);
      spread(tile, gradients_, queries, to.k, x_row_);
    });
  }

  AttentionSpec spec_;
  bool drops_;
  int size_, context_, sequences_, x_row_, y_row_;
  Conversion x_, dx_;
  std::vector<float> denominators_;  // [sequence, head, position]
  std::vector<float> cosines_, sines_;
  std::uint64_t draws_ = 0;
  // In the scratch: of a tile's queries [size_, kQueries], of a tile, and of one head [context_, size_].
  float *queries_turned_ = nullptr, *dout_turned_ = nullptr;
  float *weights_ = nullptr, *gradients_ = nullptr, *dropped_ = nullptr;
  float *queries_ = nullptr, *keys_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_attention(const AttentionSpec& spec, const Activation& input, Passes passes) {
  return std::make_unique<TiledAttention>(spec, input, passes);
}

}  // namespace starling::kernels::cpu
