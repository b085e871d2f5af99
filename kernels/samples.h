// Labeled samples in the memory of a device, which assembles batches itself; a step needs only the choice of
// samples from the host.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/operation.h"
#include "kernels/queue.h"

namespace starling::kernels {

// Samples on the host: [shape.batch, channels, height, width], as bytes or as floats (the other is null). The
// network's input in channel c is scale[c] value + shift[c].
struct SampleView {
  Shape shape;
  const std::uint8_t* bytes = nullptr;
  const float* floats = nullptr;
  const std::uint8_t* labels = nullptr;  // [shape.batch]
  std::span<const float> scale, shift;   // [channels]
};

// One sample of a batch, shifted: row i, column j of the input is row i + down, column j + right of the
// sample, or black (the value 0 before scale and shift) outside it. If mirrored, left and right are then
// swapped.
struct Choice {
  std::uint32_t sample = 0;
  std::int16_t down = 0, right = 0;
  std::int32_t mirrored = 0;
};

class Samples {
 public:
  virtual ~Samples() = default;

  // Writes images [count, channels, height, width] and labels [count], both in the device's memory, for
  // `count` choices in the back end's staging memory. REQUIRES: each choice's sample exists.
  virtual void gather(Queue& queue, const Choice* choices, int count, float* images,
                      std::int32_t* labels) const = 0;
};

}  // namespace starling::kernels
