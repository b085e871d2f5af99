#include "training/learning/stages/stage_links.h"

#include <functional>
#include <numeric>

#include "base/check.h"

namespace starling::training {

std::size_t crossings_between(std::size_t senders, std::size_t receivers) {
  return std::lcm(senders, receivers);
}

std::size_t places_of_crossing(std::size_t kept, std::size_t senders, std::size_t receivers) {
  const std::size_t of_sender = crossings_between(senders, receivers) / senders;
  return (kept + of_sender - 1) / of_sender;
}

Crossing::Crossing(const std::vector<models::Border>& borders, std::size_t places, std::uint64_t apart,
                   const kernels::Backend& sender, const kernels::Backend& receiver)
    : apart_(apart), places_(places) {
  STARLING_CHECK(places > 0 && apart > 0);
  for (Place& it : places_) {
    for (const models::Border& border : borders) {
      const std::size_t floats = border.activation.floats;
      it.values.emplace_back(floats, sender.staging());
      it.gradients.emplace_back(border.trained ? floats : 0, receiver.staging());
      if (!receiver.memory().on_host()) it.arrived.emplace_back(floats, receiver.memory());
      it.pointers.push_back(receiver.memory().on_host() ? it.values.back().data() : it.arrived.back().data());
    }
  }
}

void Crossing::put(std::uint64_t number, const models::Section& sender, std::span<const float* const> inputs,
                   kernels::Queue& queue) {
  Place& it = place(number);
  for (std::size_t k = 0; k < it.values.size(); ++k)
    queue.download(sender.output(k, inputs), it.values[k].data(), it.values[k].bytes());
}

void Crossing::take(std::uint64_t number, kernels::Queue& queue) {
  Place& it = place(number);
  for (std::size_t k = 0; k < it.arrived.size(); ++k)
    queue.upload(it.values[k].data(), it.arrived[k].data(), it.values[k].bytes());
}

void Crossing::put_gradients(std::uint64_t number, const models::Section& receiver, kernels::Queue& queue) {
  Place& it = place(number);
  for (std::size_t k = 0; k < it.gradients.size(); ++k)
    if (it.gradients[k].size() > 0)
      queue.download(receiver.input_gradient(k), it.gradients[k].data(), it.gradients[k].bytes());
}

void Crossing::take_gradients(std::uint64_t number, models::Section& sender, kernels::Queue& queue) const {
  const Place& it = place(number);
  for (std::size_t k = 0; k < it.gradients.size(); ++k)
    if (it.gradients[k].size() > 0)
      queue.upload(it.gradients[k].data(), sender.output_gradient(k), it.gradients[k].bytes());
}

std::size_t Crossing::bytes() const {
  std::size_t bytes = 0;
  for (const Place& it : places_) {
    for (const auto& buffers : {std::cref(it.values), std::cref(it.gradients)})
      for (const kernels::Buffer& buffer : buffers.get()) bytes += buffer.bytes();
  }
  return bytes;
}

std::size_t Crossing::arrived_bytes() const {
  std::size_t bytes = 0;
  for (const Place& it : places_)
    for (const kernels::Buffer& buffer : it.arrived) bytes += buffer.bytes();
  return bytes;
}

void StageInboxes::send(const StageMessage& message) {
  {
    const std::lock_guard lock(mutex_);
    inboxes_[shape_.number_of(message.stage, message.replica)].messages.push_back(message);
  }
  arrived_.notify_all();
}

void StageInboxes::send(const std::vector<StageMessage>& messages) {
  for (const StageMessage& message : messages) send(message);
}

bool StageInboxes::await(std::size_t replica, std::vector<StageMessage>& out) {
  Inbox& inbox = inboxes_[replica];
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return stopped_ || inbox.woken || !inbox.messages.empty(); });
  if (stopped_) return false;
  out.insert(out.end(), inbox.messages.begin(), inbox.messages.end());
  inbox.messages.clear();
  inbox.woken = false;
  return true;
}

bool StageInboxes::deliver(StageMachine& machine) {
  std::vector<StageMessage>& messages = inboxes_[machine.number()].delivered;
  messages.clear();
  if (!await(machine.number(), messages)) return false;
  for (const StageMessage& message : messages) STARLING_CHECK(machine.arrived(message).ok());
  send(machine.take_due());
  return true;
}

void StageInboxes::wake(std::size_t replica) {
  {
    const std::lock_guard lock(mutex_);
    inboxes_[replica].woken = true;
  }
  arrived_.notify_all();
}

void StageInboxes::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  arrived_.notify_all();
}

void StageInboxes::clear() {
  const std::lock_guard lock(mutex_);
  stopped_ = false;
  for (Inbox& inbox : inboxes_) inbox = {};
}

}  // namespace starling::training
