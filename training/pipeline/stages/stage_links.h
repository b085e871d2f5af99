// What passes between the stages of a network on one machine: the values that cross a cut and their
// gradients, and an inbox of messages for each stage.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "models/section.h"
#include "training/pipeline/machine.h"

namespace starling::training {

// The values that cross the cut behind a stage, for as many micro-batches as the stage keeps: it reuses the
// place of one only after its own backward pass, when the next stage needs neither any more. They cross in
// the host's memory: a device copies them there, and another one from there. The sender's functions are
// called with its queue, the receiver's with its own; the work of one is done before the other begins.
class Crossing {
 public:
  Crossing(const std::vector<models::Border>& borders, std::size_t places, const kernels::Backend& sender,
           const kernels::Backend& receiver);

  // Copies the outputs of the sender's forward pass, `inputs` being its own.
  void put(std::uint64_t number, const models::Section& sender, std::span<const float* const> inputs,
           kernels::Queue& queue);
  // Brings them to the receiver's memory.
  void take(std::uint64_t number, kernels::Queue& queue);
  // Where the next stage reads them.
  std::span<const float* const> values(std::uint64_t number) const { return place(number).pointers; }
  // Copies the gradients of the receiver's backward pass; take_gradients() copies them to where the sender
  // needs them.
  void put_gradients(std::uint64_t number, const models::Section& receiver, kernels::Queue& queue);
  void take_gradients(std::uint64_t number, models::Section& sender, kernels::Queue& queue) const;

  std::size_t bytes() const;          // on the host
  std::size_t arrived_bytes() const;  // on the receiver's device

 private:
  struct Place {
    std::vector<kernels::Buffer> values, gradients;  // by border; no gradient of a value that is not trained
    std::vector<kernels::Buffer> arrived;            // the values on the receiver's device, if it is one
    std::vector<const float*> pointers;              // to the values for the receiver
  };
  const Place& place(std::uint64_t number) const { return places_[number % places_.size()]; }
  Place& place(std::uint64_t number) { return places_[number % places_.size()]; }

  std::vector<Place> places_;
};

// Messages for the stages of one network. Any thread may call.
class StageInboxes {
 public:
  explicit StageInboxes(std::size_t stages) : inboxes_(stages) {}

  void send(const StageMessage& message);
  // Waits for messages to the stage and appends them to `out`. Returns false if stop() was called.
  bool await(std::size_t stage, std::vector<StageMessage>& out);
  // Ends all waits until clear().
  void stop();
  void clear();

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::vector<StageMessage>> inboxes_;
  bool stopped_ = false;
};

}  // namespace starling::training
