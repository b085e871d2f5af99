#include "kernels/operation.h"

#include "base/check.h"

namespace starling::kernels {
namespace {

Shape shape_of(const ConvolutionSpec& it, const Shape& in) {
  STARLING_CHECK(it.channels > 0 && it.kernel > 0 && it.stride > 0 && it.padding >= 0 &&
                 it.padding < it.kernel);
  STARLING_CHECK(it.height > 0 && it.width > 0);
  STARLING_CHECK((it.height - 1) * it.stride + it.kernel - it.padding > in.height - it.stride);
  STARLING_CHECK((it.width - 1) * it.stride + it.kernel - it.padding > in.width - it.stride);
  STARLING_CHECK(it.groups > 0 && in.channels % it.groups == 0 && it.channels % it.groups == 0);
  return {in.batch, it.channels, it.height, it.width};
}
Shape pooled(int size, const Shape& in) {
  STARLING_CHECK(size > 0 && size <= in.height && size <= in.width);
  return {in.batch, in.channels, in.height / size, in.width / size};
}
Shape shape_of(const AveragePoolSpec& it, const Shape& in) { return pooled(it.size, in); }
Shape shape_of(const MaxPoolSpec& it, const Shape& in) { return pooled(it.size, in); }
Shape shape_of(const GlobalAveragePoolSpec&, const Shape& in) { return {in.batch, in.channels, 1, 1}; }
Shape shape_of(const LinearSpec& it, const Shape& in) {
  STARLING_CHECK(it.features > 0);
  return {in.batch, it.features, 1, 1};
}
Shape shape_of(const ReluSpec&, const Shape& in) { return in; }
Shape shape_of(const GeluSpec&, const Shape& in) { return in; }
Shape shape_of(const BatchNormSpec& it, const Shape& in) {
  STARLING_CHECK(it.epsilon > 0);
  return in;
}
Shape shape_of(const GroupNormSpec& it, const Shape& in) {
  STARLING_CHECK(it.epsilon > 0 && it.groups > 0 && in.channels % it.groups == 0);
  return in;
}
Shape shape_of(const EmbeddingSpec& it, const Shape& in) {
  STARLING_CHECK(it.tokens > 0 && it.features > 0 && in.sample_size() == 1);
  return {in.batch, it.features, 1, 1};
}
Shape shape_of(const PositionSpec& it, const Shape& in) {
  STARLING_CHECK(it.context > 0 && in.batch % it.context == 0 && in.height * in.width == 1);
  return in;
}
Shape shape_of(const AttentionSpec& it, const Shape& in) {
  STARLING_CHECK(it.context > 0 && in.batch % it.context == 0 && in.height * in.width == 1);
  STARLING_CHECK(it.heads > 0 && it.groups > 0 && it.heads % it.groups == 0);
  STARLING_CHECK(in.channels % (it.heads + 2 * it.groups) == 0);
  STARLING_CHECK(!(it.rotary_base > 0) || it.head_size(in) % 2 == 0);
  STARLING_CHECK(it.dropout >= 0 && it.dropout < 1);
  return {in.batch, it.heads * it.head_size(in), 1, 1};
}
Shape shape_of(const SwigluSpec&, const Shape& in) {
  STARLING_CHECK(in.channels % 2 == 0 && in.height * in.width == 1);
  return {in.batch, in.channels / 2, 1, 1};
}
Shape shape_of(const RmsNormSpec& it, const Shape& in) {
  STARLING_CHECK(it.epsilon > 0 && in.height * in.width == 1);
  return in;
}
Shape shape_of(const DropoutSpec& it, const Shape& in) {
  STARLING_CHECK(it.rate >= 0 && it.rate < 1);
  STARLING_CHECK(in.size() <= std::numeric_limits<std::uint32_t>::max());  // draws use 32-bit indices
  return in;
}

}  // namespace

Shape output_shape(const OperationSpec& spec, const Shape& input) {
  return std::visit([&](const auto& it) { return shape_of(it, input); }, spec);
}

}  // namespace starling::kernels
