// Labelled samples that stay in the memory of a device, which puts batches together by itself: a step then
// needs from the host no more than which samples come next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/operation.h"
#include "kernels/queue.h"

namespace starling::kernels {

// Samples on the host: [shape.batch, channels, height, width], as bytes or as floats (the other is null). What
// a network sees of channel c is scale[c] value + shift[c].
struct SampleView {
  Shape shape;
  const std::uint8_t* bytes = nullptr;
  const float* floats = nullptr;
  const std::uint8_t* labels = nullptr;  // [shape.batch]
  std::span<const float> scale, shift;   // [channels]
};

// One sample of a batch, moved: row i, column j of what the network sees is the sample's row i + down, column
// j + right, and black (the value 0 before scale and shift) where it has none; then, if mirrored, left and
// right change places.
struct Choice {
  std::uint32_t sample = 0;
  std::int16_t down = 0, right = 0;
  std::int32_t mirrored = 0;
};

class Samples {
 public:
  virtual ~Samples() = default;

  // images [count, channels, height, width] and labels [count], both in the device's memory, of the `count`
  // choices in the back end's staging memory. REQUIRES: each choice's sample is there.
  virtual void gather(Queue& queue, const Choice* choices, int count, float* images,
                      std::int32_t* labels) const = 0;
};

}  // namespace starling::kernels
