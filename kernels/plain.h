// The plain format [batch, channels, height, width], possibly the upper left part of larger images. Every
// back end of the host takes its input in it.
#pragma once

#include "base/check.h"
#include "kernels/operation.h"

namespace starling::kernels {

class Plain : public Format {
 public:
  Plain(int rows, int columns) : height(rows), width(columns) {}
  const int height, width;  // of the images as stored
};

// An activation without gaps.
inline Activation plain_activation(const Shape& shape) {
  return {shape, std::make_shared<Plain>(shape.height, shape.width), shape.size()};
}

// Part of larger images.
inline Activation plain_window(const Shape& stored, int height, int width) {
  STARLING_CHECK(height > 0 && width > 0 && height <= stored.height && width <= stored.width);
  return {{stored.batch, stored.channels, height, width},
          std::make_shared<Plain>(stored.height, stored.width),
          stored.size()};
}

// The plain format of `activation`, or null if it has another one.
inline const Plain* as_plain(const Activation& activation) {
  return dynamic_cast<const Plain*>(activation.format.get());
}

// Whether it is plain without gaps between the rows.
inline bool is_dense_plain(const Activation& activation) {
  const Plain* plain = as_plain(activation);
  return plain != nullptr && plain->height == activation.shape.height &&
         plain->width == activation.shape.width;
}

// Storage as values of another type.
template <class T>
const T* values(const float* storage) {
  return reinterpret_cast<const T*>(storage);
}
template <class T>
T* values(float* storage) {
  return reinterpret_cast<T*>(storage);
}

}  // namespace starling::kernels
