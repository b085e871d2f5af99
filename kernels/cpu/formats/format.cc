#include "kernels/cpu/formats/format.h"

#include "base/check.h"
#include "kernels/cpu/vectors/vector_loops.h"

namespace starling::kernels::cpu {

memory::desc describe(const Activation& activation) {
  if (const auto* blocked = dynamic_cast<const OneDnnFormat*>(activation.format.get())) return blocked->desc;
  const Plain* plain = as_plain(activation);
  STARLING_CHECK(plain != nullptr);
  const memory::dim row = plain->width, image = row * plain->height;
  const memory::dims strides{image * activation.shape.channels, image, row, 1};
  return {image_dims(activation.shape), memory::data_type::f32, strides};
}

memory::desc dense_format(const Activation& activation) {
  return as_plain(activation) != nullptr ? plain_format(image_dims(activation.shape)) : describe(activation);
}

bool is_bf16(const Activation& activation) {
  const auto* format = dynamic_cast<const OneDnnFormat*>(activation.format.get());
  return format != nullptr && type_of(format->desc) == memory::data_type::bf16;
}

void mask_where_not_positive(const Activation& activation, const float* y, float* dy) {
  if (is_bf16(activation)) {
    auto* gradient = values<Bfloat16>(dy);
    mask_where_not_positive(values<Bfloat16>(y), gradient, gradient, stored<Bfloat16>(activation));
  } else {
    mask_where_not_positive(y, dy, dy, activation.floats);
  }
}

Activation activation(const Shape& shape, const memory::desc& desc) {
  if (desc == plain_format(image_dims(shape))) return plain_activation(shape);
  return {shape, std::make_shared<OneDnnFormat>(desc), floats(desc)};
}

}  // namespace starling::kernels::cpu
