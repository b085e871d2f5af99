// Computes the mean of vectors on several devices and writes it to each of them, for the replicas of one peer
// on several devices (training/learning/device_group.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/queue.h"

namespace starling::kernels {

class Backend;

class Averager {
 public:
  virtual ~Averager() = default;

  virtual std::string_view name() const = 0;  // of the transport

  // One device: its queue and, in its memory, the vector and the place of the mean.
  struct Part {
    Queue* queue;
    const float* vector;
    float* mean;  // differs from `vector`
  };
  // mean = (vector + vector + ...) / parts, for `floats` each; done in the order of the queues, after the
  // call returns. One thread at a time. REQUIRES: a part for each back end, in their order. Throws
  // DeviceError.
  virtual void average(std::span<const Part> parts, std::size_t floats) = 0;
  // Ends waiting for other devices after one has failed. average() must not be called again.
  virtual void give_up() = 0;
};

// The devices' own (Backend::make_averager) or, if they have none, one that copies the vectors to the host
// and adds them there. The back ends outlive it.
std::unique_ptr<Averager> make_averager(const std::vector<const Backend*>& backends);

}  // namespace starling::kernels
