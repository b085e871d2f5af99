#include "training/pipeline/stages/stage_links.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace starling::training {

Crossing::Crossing(const std::vector<models::Border>& borders, std::size_t places, kernels::Memory& memory)
    : places_(places) {
  STARLING_CHECK(places > 0);
  for (Place& it : places_) {
    for (const models::Border& border : borders) {
      it.values.emplace_back(border.activation.floats, memory);
      it.gradients.emplace_back(border.trained ? border.activation.floats : 0, memory);
      it.pointers.push_back(it.values.back().data());
    }
  }
}

void Crossing::put(std::uint64_t number, const models::Section& sender,
                   std::span<const float* const> inputs) {
  Place& it = place(number);
  for (std::size_t k = 0; k < it.values.size(); ++k)
    std::copy_n(sender.output(k, inputs), it.values[k].size(), it.values[k].data());
}

void Crossing::put_gradients(std::uint64_t number, const models::Section& receiver) {
  Place& it = place(number);
  for (std::size_t k = 0; k < it.gradients.size(); ++k)
    if (it.gradients[k].size() > 0)
      std::copy_n(receiver.input_gradient(k), it.gradients[k].size(), it.gradients[k].data());
}

void Crossing::take_gradients(std::uint64_t number, models::Section& sender) const {
  const Place& it = place(number);
  for (std::size_t k = 0; k < it.gradients.size(); ++k)
    if (it.gradients[k].size() > 0)
      std::copy_n(it.gradients[k].data(), it.gradients[k].size(), sender.output_gradient(k));
}

std::size_t Crossing::bytes() const {
  std::size_t bytes = 0;
  for (const Place& it : places_) {
    for (const auto& buffers : {std::cref(it.values), std::cref(it.gradients)})
      for (const kernels::Buffer& buffer : buffers.get()) bytes += buffer.bytes();
  }
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
