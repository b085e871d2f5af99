// The mean of vectors that lie on several devices, brought to each of them: what the replicas of one peer on
// several devices need (training/device_group.h).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "kernels/queue.h"

namespace starling::kernels {

class Averager {
 public:
  virtual ~Averager() = default;

  virtual std::string_view name() const = 0;  // by what it brings them together

  // A device's part: a queue of it, and in its memory the vector and where the mean goes.
  struct Part {
    Queue* queue;
    const float* vector;
    float* mean;  // not over `vector`
  };
  // mean = (vector + vector + ...) / parts, of `floats` each; done in the order of the queues, some time
  // after the call. One thread at a time. REQUIRES: a part for each back end, in their order. Throws
  // DeviceError.
  virtual void average(std::span<const Part> parts, std::size_t floats) = 0;
  // A device has failed: the others no longer wait for it. Nothing is averaged any more.
  virtual void give_up() = 0;
};

}  // namespace starling::kernels
