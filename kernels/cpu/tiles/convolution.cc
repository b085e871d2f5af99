#include "kernels/cpu/tiles/convolution.h"

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/cpu/channels/layout.h"
#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/formats/format.h"
#include "kernels/cpu/tiles/packing.h"
#include "kernels/cpu/tiles/stack.h"
#include "kernels/cpu/tiles/tiles.h"

namespace starling::kernels::cpu::tiles {
namespace {

// Bytes of operands that should stay in a core's second cache (2 MB where there are tiles) while they are
// reused.
constexpr std::size_t kCached = 1 << 20;

// Lists of terms, one after another.
class TermLists {
 public:
  void add(Term term) { terms_.push_back(term); }
  void end_list() { ends_.push_back(terms_.size()); }

  std::span<const Term> operator[](int list) const {
    const auto i = static_cast<std::size_t>(list);
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::span(terms_).subspan(begin, ends_[i] - begin);
  }
  std::size_t bytes() const { return terms_.capacity() * sizeof(Term) + ends_.capacity() * sizeof(ends_[0]); }

 private:
  std::vector<Term> terms_;
  std::vector<std::size_t> ends_;
};

// The images of a batch in tiles of equal size. The last tile overlaps the one before if necessary, so that
// it is full.
struct ImageTiles {
  int batch, count, rows;

  explicit ImageTiles(int images)
      : batch(images), count((images + kSide - 1) / kSide), rows((images + count - 1) / count) {}
  int first(int tile) const { return std::min(tile * rows, batch - rows); }
};

class TilesConvolution final : public Operation {
 public:
  TilesConvolution(const ConvolutionSpec& spec, const Activation& input, const Activation& in, Passes passes,
                   bool relu)
      : Operation(stack(output_shape(spec, input.shape)), relu ? 2 : 1),
        spec_(spec),
        in_(input.shape),
        out_(output().shape),
        relu_(relu),
        x_(input, in),
        dx_(in, input),
        images_(in_.batch),
        forward_order_{in_.channels, out_.channels, taps(), taps(), std::ptrdiff_t{in_.channels} * taps()},
        sums_(kBlock * kBlock) {
    list_forward();
    if (passes.backward) prepare_weight_gradient();
    if (passes.backward && passes.input_gradient) prepare_input_gradient();
  }

  void forward(const float* parameters, const float* x, float* y) override {
    pack_weights(forward_order_, parameters + spec_.weight, packed_weights());
    const float* bias = spec_.bias == kNone ? nullptr : parameters + spec_.bias;
    multiply(forward_order_, forward_terms_, positions(out_), values<Bfloat16>(x_.convert(x)), bias, relu_,
             values<Bfloat16>(y));
  }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    if (relu_) mask_where_not_positive(output(), y, dy);
    if (spec_.bias != kNone) sum_images(values<Bfloat16>(dy), gradient + spec_.bias);
    weight_gradient(values<Bfloat16>(x_.converted(x)), values<Bfloat16>(dy), gradient + spec_.weight);
    if (dx == nullptr) return;
    pack_weights(backward_order_, parameters + spec_.weight, packed_weights());
    multiply(backward_order_, backward_terms_, positions(in_), values<Bfloat16>(dy), nullptr, false,
             values<Bfloat16>(dx_.target(dx)));
    dx_.finish(dx);
  }

  std::size_t scratch_floats() const override {
    const std::ptrdiff_t weights = std::max(forward_order_.values(), backward_order_.values());
    const std::ptrdiff_t weight_gradient = out_tiles_.values() + in_tiles_.values() + 2 * gradient_floats();
    return static_cast<std::size_t>(std::max(weights, weight_gradient)) * sizeof(Bfloat16) / sizeof(float);
  }
  void set_scratch(float* scratch) override { scratch_ = scratch; }

  std::size_t workspace_bytes() const override {
    return x_.workspace_bytes() + dx_.workspace_bytes() + sums_.bytes() + forward_terms_.bytes() +
           backward_terms_.bytes() + gradient_terms_.bytes();
  }

 private:
  int taps() const { return spec_.kernel * spec_.kernel; }
  static int positions(const Shape& shape) { return shape.height * shape.width; }

  // Calls f(position out, tap, position in) for all pairs, in the order of the positions out.
  template <class F>
  void for_rows(int first_row, int last_row, const F& f) const {
    for (int row = first_row; row < last_row; ++row) {
      for (int column = 0; column < out_.width; ++column) {
        for (int tap = 0; tap < taps(); ++tap) {
          const int i = row * spec_.stride + tap / spec_.kernel - spec_.padding;
          const int j = column * spec_.stride + tap % spec_.kernel - spec_.padding;
          if (i < 0 || j < 0 || i >= in_.height || j >= in_.width) continue;
          f(row * out_.width + column, tap, i * in_.width + j);
        }
      }
    }
  }

  // Calls f(term) for the products of the images at a position with a tap's weights: one term for all steps
  // or, if the last step overlaps the one before, one for each.
  template <class F>
  void for_terms(const WeightOrder& order, int position, int tap, const F& f) const {
    const std::ptrdiff_t images = std::ptrdiff_t{position} * in_.batch * order.inputs;
    for (int step = 0; step < order.steps(); step += steps_of_term(order)) {
      f(Term{images + order.first_input(step), tap * order.tap_values() + step * order.step_values()});
    }
  }
  static int steps_of_term(const WeightOrder& order) {
    return order.inputs % order.depth() == 0 ? order.steps() : 1;
  }

  void list_forward() {
    int list = 0;
    for_rows(0, out_.height, [&](int out, int tap, int in) {
      for (; list < out; ++list) forward_terms_.end_list();
      for_terms(forward_order_, in, tap, [&](Term term) { forward_terms_.add(term); });
    });
    for (; list < positions(out_); ++list) forward_terms_.end_list();
  }

  void prepare_input_gradient() {
    backward_order_ = {out_.channels, in_.channels, taps(), std::ptrdiff_t{in_.channels} * taps(), taps()};
    std::vector<std::vector<Term>> lists(static_cast<std::size_t>(positions(in_)));
    for_rows(0, out_.height, [&](int out, int tap, int in) {
      auto& list = lists[static_cast<std::size_t>(in)];
      for_terms(backward_order_, out, tap, [&](Term term) { list.push_back(term); });
    });
    for (const auto& list : lists) {
      for (const Term& term : list) backward_terms_.add(term);
      backward_terms_.end_list();
    }
  }

  // Rows of the output are processed a few at a time, so that their tiles and their inputs' tiles stay in
  // cache for all channels. Each of these pieces has a list for every tap.
  void prepare_weight_gradient() {
    const int chunks = (in_.batch + kDepth - 1) / kDepth;
    const int each = (in_.batch + chunks - 1) / chunks;
    const int depth = each + each % 2;
    out_tiles_ = {positions(out_), out_.batch, out_.channels, depth};
    in_tiles_ = {positions(in_), in_.batch, in_.channels, depth};
    const auto row_bytes = static_cast<std::size_t>(out_tiles_.position_values() * out_.width +
                                                    in_tiles_.position_values() * in_.width * spec_.stride) *
                           sizeof(Bfloat16);
    const int rows = static_cast<int>(
        std::clamp<std::size_t>(kCached / row_bytes, 1, static_cast<std::size_t>(out_.height)));
    pieces_ = (out_.height + rows - 1) / rows;
    for (int piece = 0; piece < pieces_; ++piece) {
      std::vector<std::vector<Term>> lists(static_cast<std::size_t>(taps()));
      for_rows(piece * rows, std::min((piece + 1) * rows, out_.height), [&](int out, int tap, int in) {
        lists[static_cast<std::size_t>(tap)].push_back(
            {out * out_tiles_.position_values(), in * in_tiles_.position_values()});
      });
      for (const auto& list : lists) {
        for (const Term& term : list) gradient_terms_.add(term);
        gradient_terms_.end_list();
      }
    }
  }

  // Scratch memory: in turn the weights, or everything for the weights' gradient.
  Bfloat16* packed_weights() { return values<Bfloat16>(scratch_); }
  Bfloat16* packed_out() { return values<Bfloat16>(scratch_); }
  Bfloat16* packed_in() { return packed_out() + out_tiles_.values(); }
  float* gradient_sums() { return reinterpret_cast<float*>(packed_in() + in_tiles_.values()); }
  // The sums of one block of channels, or of all if there are several pieces.
  std::ptrdiff_t gradient_floats() const {
    const int blocks = pieces_ > 1 ? blocks_of(out_.channels) * blocks_of(in_.channels) : 1;
    return blocks * block_floats();
  }
  std::ptrdiff_t block_floats() const { return std::ptrdiff_t{taps()} * kBlock * kBlock; }
  static int blocks_of(int channels) { return (channels + kBlock - 1) / kBlock; }
  static int tiles_of(int channels) { return (channels + kSide - 1) / kSide; }
  static int in_block(int channels, int block) { return std::min(channels - block * kBlock, kBlock); }

  // y[position] = sum over the position's terms of images x weights, for all positions and outputs. If the
  // weights fit into the cache, the outer loop is over positions, else over blocks of weights.
  void multiply(const WeightOrder& order, const TermLists& terms, int position_count, const Bfloat16* x,
                const float* bias, bool relu, Bfloat16* y) {
    const TileSession session(images_.rows, order.depth());
    const bool cached = static_cast<std::size_t>(order.values()) * sizeof(Bfloat16) <= kCached;
    const int outer = cached ? position_count : order.blocks(),
              inner = cached ? order.blocks() : position_count;
    for (int i = 0; i < outer; ++i) {
      for (int j = 0; j < inner; ++j) {
        const int position = cached ? i : j, block = cached ? j : i;
        multiply_position(session, order, terms[position], block, x, bias,
                          y + std::ptrdiff_t{position} * in_.batch * order.outputs, relu);
      }
    }
  }

  void multiply_position(const TileSession& session, const WeightOrder& order, std::span<const Term> terms,
                         int block, const Bfloat16* x, const float* bias, Bfloat16* y, bool relu) {
    const int columns = in_block(order.outputs, block), column = block * kBlock;
    for (int tile = 0; tile < images_.count; tile += 2) {
      const int count = std::min(images_.count - tile, 2);
      const int first = images_.first(tile), second = images_.first(tile + count - 1);
      session.multiply({.a = x + std::ptrdiff_t{first} * order.inputs,
                        .b = packed_weights() + block * order.block_values(),
                        .a_row = order.inputs,
                        .a_second = std::ptrdiff_t{second - first} * order.inputs,
                        .b_second = kValues,
                        .a_step = order.depth(),
                        .b_step = order.step_values(),
                        .steps = steps_of_term(order),
                        .a_count = count,
                        .b_count = tiles_of(columns)},
                       terms, false, sums_.data(), kBlock);
      for (int k = 0; k < count; ++k) {
        const int image = k == 0 ? first : second;
        round_rows(sums_.data() + k * kSide * kBlock, images_.rows, columns,
                   bias == nullptr ? nullptr : bias + column, relu,
                   y + std::ptrdiff_t{image} * order.outputs + column, order.outputs);
      }
    }
  }

  // Sums over positions and images, the depth of the products.
  void weight_gradient(const Bfloat16* x, const Bfloat16* dy, float* dweight) {
    transpose_stack(out_tiles_, dy, packed_out());
    interleave_stack(in_tiles_, x, packed_in());
    const TileSession session(kSide, out_tiles_.depth);
    for (int piece = 0; piece < pieces_; ++piece) {
      float* sums = gradient_sums();
      for (int out = 0; out < blocks_of(out_.channels); ++out) {
        for (int in = 0; in < blocks_of(in_.channels); ++in) {
          add_block(session, piece, out, in, sums);
          if (piece + 1 == pieces_) {
            spread_taps(sums, taps(), in_block(out_.channels, out), in_block(in_.channels, in),
                        dweight + (std::ptrdiff_t{out} * kBlock * in_.channels + in * kBlock) * taps(),
                        std::ptrdiff_t{in_.channels} * taps());
          }
          if (pieces_ > 1) sums += block_floats();
        }
      }
    }
  }

  void add_block(const TileSession& session, int piece, int out, int in, float* sums) {
    const Operands operands{.a = packed_out() + std::ptrdiff_t{out} * 2 * kValues,
                            .b = packed_in() + std::ptrdiff_t{in} * 2 * kValues,
                            .a_row = kDepth,
                            .a_second = kValues,
                            .b_second = kValues,
                            .a_step = out_tiles_.chunk_values(),
                            .b_step = in_tiles_.chunk_values(),
                            .steps = out_tiles_.chunks(),
                            .a_count = tiles_of(in_block(out_.channels, out)),
                            .b_count = tiles_of(in_block(in_.channels, in))};
    for (int tap = 0; tap < taps(); ++tap) {
      session.multiply(operands, gradient_terms_[piece * taps() + tap], piece > 0,
                       sums + tap * kBlock * kBlock, kBlock);
    }
  }

  // dbias = the sum of dy over positions and images.
  void sum_images(const Bfloat16* dy, float* dbias) const {
    using channels::kRow;
    const float origin[kRow] = {};
    const int rows = positions(out_) * out_.batch;
    for (int channel = 0; channel < out_.channels; channel += kRow) {
      const int lanes = std::min(out_.channels - channel, kRow);
      channels::Sums sums;
      sums.add({rows, out_.channels, lanes, 0},
               [&](const channels::Run& piece, std::ptrdiff_t offset, float* floats) {
                 channels::loops().bf16.moments(piece, dy + channel + offset, origin, floats);
               });
      for (int place = 0; place < lanes; ++place)
        dbias[channel + place] = static_cast<float>(sums.first[place]);
    }
  }

  ConvolutionSpec spec_;
  Shape in_, out_;
  bool relu_;
  Conversion x_, dx_;
  ImageTiles images_;
  WeightOrder forward_order_, backward_order_{};
  TermLists forward_terms_, backward_terms_, gradient_terms_;
  StackTiles out_tiles_{}, in_tiles_{};
  int pieces_ = 1;
  Buffer sums_;
  float* scratch_ = nullptr;
};

}  // namespace

bool suits(const ConvolutionSpec& spec, const Shape& in) {
  // With fewer channels a tile would be mostly empty.
  constexpr int kLeast = kSide / 2;
  return available() && spec.groups == 1 && in.channels % 2 == 0 && spec.channels % 2 == 0 &&
         in.channels >= kLeast && spec.channels >= kLeast;
}

std::unique_ptr<Operation> make_convolution(const ConvolutionSpec& spec, const Activation& input,
                                            Passes passes, bool relu) {
  return std::make_unique<TilesConvolution>(spec, input, stack(input.shape), passes, relu);
}

}  // namespace starling::kernels::cpu::tiles
