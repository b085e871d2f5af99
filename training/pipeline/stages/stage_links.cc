#include "training/pipeline/stages/stage_links.h"

#include <functional>

#include "base/check.h"

namespace starling::training {

Crossing::Crossing(const std::vector<models::Border>& borders, std::size_t places,
                   const kernels::Backend& sender, const kernels::Backend& receiver)
    : places_(places) {
  STARLING_CHECK(places > 0);
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
    inboxes_[message.stage].push_back(message);
  }
  arrived_.notify_all();
}

bool StageInboxes::await(std::size_t stage, std::vector<StageMessage>& out) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return stopped_ || !inboxes_[stage].empty(); });
  if (stopped_) return false;
  out.insert(out.end(), inboxes_[stage].begin(), inboxes_[stage].end());
  inboxes_[stage].clear();
  return true;
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
  for (auto& inbox : inboxes_) inbox.clear();
}

}  // namespace starling::training
