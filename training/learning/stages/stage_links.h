// What passes between the stages of a network on one machine: the values that cross a cut and their
// gradients, the gradients of tensors that two stages use, and messages, with an inbox for each replica of a
// stage. Tensors pass through the host's memory: a device copies them there, and another one from there.
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
#include "training/planner/machine.h"

namespace starling::training {

// The crossings of the cut between two stages: the least common multiple C of their numbers of replicas.
// Micro-batch i takes crossing i mod C, which connects the two replicas that compute it. So a replica of a
// stage of R has C / R crossings, and its micro-batches take them in turn.
std::size_t crossings_between(std::size_t senders, std::size_t receivers);
// The places of each crossing, if a sender keeps `kept` micro-batches.
std::size_t places_of_crossing(std::size_t kept, std::size_t senders, std::size_t receivers);

// The values that cross a cut between two replicas of stages. It has places for as many micro-batches as the
// sender keeps of those that cross here: the sender reuses the place of one only after its own backward pass,
// when the receiver needs neither values nor gradients any more. The sender's functions are called with its
// queue, the receiver's with its own; the work of one is done before the other begins.
class Crossing {
 public:
  // Every `apart`-th micro-batch crosses here: `apart` is crossings_between() the stages.
  Crossing(const std::vector<models::Border>& borders, std::size_t places, std::uint64_t apart,
           const kernels::Backend& sender, const kernels::Backend& receiver);

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
  // number / apart_ counts the micro-batches that cross here: 0, 1, 2, ... They take the places in turn.
  const Place& place(std::uint64_t number) const { return places_[number / apart_ % places_.size()]; }
  Place& place(std::uint64_t number) { return places_[number / apart_ % places_.size()]; }

  std::uint64_t apart_;
  std::vector<Place> places_;
};

// The gradient of a tensor that two stages compute with, from the later one to the earlier one, which trains
// it and adds its own.
struct TiedGradient {
  std::size_t tensor;                     // in the layout
  std::vector<kernels::Buffer> places{};  // as many as all replicas of the earlier stage keep micro-batches

  kernels::Buffer& of(std::uint64_t number) { return places[number % places.size()]; }
};

// Messages for the replicas of all stages of one network, by number (PipelineShape::number_of()). Any thread
// may call.
class StageInboxes {
 public:
  explicit StageInboxes(const PipelineShape& shape) : shape_(shape), inboxes_(shape.all_replicas()) {}

  void send(const StageMessage& message);
  void send(const std::vector<StageMessage>& messages);
  // Waits for messages to the replica, or for wake(), and appends them to `out`. Returns false if stop() was
  // called.
  bool await(std::size_t replica, std::vector<StageMessage>& out);
  // Waits in the same way, passes the messages to the machine, which is their receiver, and sends what it
  // owes others after them. REQUIRES: called on one thread for each machine.
  bool deliver(StageMachine& machine);
  // Ends a wait of the replica, or its next one.
  void wake(std::size_t replica);
  // Ends all waits until clear().
  void stop();
  void clear();

 private:
  struct Inbox {
    std::vector<StageMessage> messages{};
    std::vector<StageMessage> delivered{};  // scratch of the receiver's thread
    bool woken = false;
  };

  const PipelineShape shape_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Inbox> inboxes_;
  bool stopped_ = false;
};

}  // namespace starling::training
