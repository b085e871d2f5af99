#include "kernels/cpu/operations.h"

#include "kernels/cpu/channels/layout.h"
#include "kernels/cpu/formats/conversion.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu {
namespace {

using namespace channels;  // NOLINT: the loops that this file is about

class LayoutGlobalPool final : public Operation {
 public:
  LayoutGlobalPool(const Activation& input, const Activation& in)
      : Operation(plain_activation(output_shape(GlobalAveragePoolSpec{}, input.shape)), 1),
        layout_(*layout_of(in)),
        x_(input, in),
        dx_(in, input) {}

  void forward(const float*, const float* x, float* y) override {
    x = x_.convert(x);
    const float origin[kRow] = {};
    const auto pixels = static_cast<double>(layout_.pixels());
    for_blocks([&](int n, int block) {
      Sums sums;
      const float* at = x + layout_.at(n, block);
      sums.add(layout_.run_of(block), [&](const Run& piece, std::ptrdiff_t offset, float* floats) {
        loops().f32.moments(piece, at + offset, origin, floats);
      });
      layout_.for_channels(block, [&](int first, std::size_t) {
        *y++ = static_cast<float>(layout_.over_channel(sums.first, first) / pixels);
      });
    });
  }

  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    float* to = dx_.target(dx);
    const float share = 1 / static_cast<float>(layout_.pixels());
    for_blocks([&](int n, int block) {
      const float* from = dy + std::ptrdiff_t{n} * layout_.shape.channels;
      alignas(64) float row[kRow];
      for (int place = 0; place < kRow; ++place) {
        const int channel = layout_.channel(block, place);
        row[place] = channel < layout_.shape.channels ? from[channel] * share : 0.0F;
      }
      loops().f32.fill(layout_.run_of(block), row, to + layout_.at(n, block));
    });
    dx_.finish(dx);
  }

  std::size_t workspace_bytes() const override { return x_.workspace_bytes() + dx_.workspace_bytes(); }

 private:
  template <class F>
  void for_blocks(const F& f) const {
    for (int n = 0; n < layout_.shape.batch; ++n) {
      for (int block = 0; block < layout_.blocks; ++block) f(n, block);
    }
  }

  ChannelLayout layout_;
  Conversion x_, dx_;
};

}  // namespace

std::unique_ptr<Operation> make_global_average_pool(const Activation& input) {
  return std::make_unique<LayoutGlobalPool>(input, with_f32_layout(input));
}

}  // namespace starling::kernels::cpu
