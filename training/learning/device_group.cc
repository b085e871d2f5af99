#include "training/learning/device_group.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/check.h"

namespace starling::training {
namespace {

using kernels::Buffer;
using kernels::MixMeasure;

constexpr std::size_t kMeasureFloats = sizeof(MixMeasure) / sizeof(float);

MixMeasure* as_measure(Buffer& buffer) { return reinterpret_cast<MixMeasure*>(buffer.data()); }

}  // namespace

DeviceGroup::Member::Member(const kernels::Backend& b, std::size_t floats)
    : backend(b),
      queue(b.make_queue()),
      replica(floats, b),
      snapshot(floats, b.memory()),
      mean(floats, b.memory()),
      measure(kMeasureFloats, b.memory()),
      measured(kMeasureFloats, b.staging()),
      done(queue->make_mark()) {}

DeviceGroup::DeviceGroup(models::Arena& peer, const std::vector<const kernels::Backend*>& backends)
    : peer_(peer), averager_(kernels::make_averager(backends)) {
  STARLING_CHECK(!backends.empty());
  for (const kernels::Backend* backend : backends)
    members_.push_back(std::make_unique<Member>(*backend, peer.size()));
  peer_now_ = Buffer(peer.size(), backends.front()->memory());
  contribution_ = Buffer(peer.size(), backends.front()->memory());
}

DeviceGroup::~DeviceGroup() = default;

void DeviceGroup::adopt() {
  std::vector<float> values(peer_.size());
  peer_.wait();
  peer_.read(0, values);
  for (const auto& member : members_) {
    member->replica.write(0, values);
    member->queue->upload(values.data(), member->mean.data(), values.size() * sizeof(float));
    member->queue->wait();
  }
  mixes_seen_ = peer_.mixes();
}

void DeviceGroup::start_average() {
  Member& first = *members_.front();
  for (const auto& member : members_) {
    member->queue->clear(member->measure.data(), member->measure.bytes());
    member->replica.copy(0, member->snapshot.values(), *member->queue);
  }
  peer_.copy(0, peer_now_.values(), *first.queue);
  // The mean divides by the number of devices, but the partners' change must count fully.
  first.backend.mix(*first.queue, contribution_.values(), first.snapshot.values(), peer_now_.values(),
                    first.mean.values(), static_cast<float>(members_.size()));

  std::vector<kernels::Averager::Part> parts;
  for (const auto& member : members_) {
    Buffer& brought = member.get() == &first ? contribution_ : member->snapshot;
    parts.push_back({member->queue.get(), brought.data(), member->mean.data()});
  }
  averager_->average(parts, peer_.size());

  for (const auto& member : members_) {
    member->replica.mix(member->mean.values(), member->snapshot.values(), 1, as_measure(member->measure),
                        *member->queue);
    member->queue->download(member->measure.data(), member->measured.data(), member->measure.bytes());
  }
  peer_.mix(first.mean.values(), peer_now_.values(), 1, as_measure(first.measure), *first.queue);
  for (const auto& member : members_) member->queue->mark(*member->done);
}

// Polls all devices: if one has failed, another may wait for it forever.
void DeviceGroup::wait() {
  const auto is_past = [](const std::unique_ptr<Member>& member) { return member->done->is_past(); };
  while (!std::all_of(members_.begin(), members_.end(), is_past))
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

DeviceGroup::Spread DeviceGroup::average() {
  const std::uint64_t mixes = peer_.mixes();
  try {
    start_average();
    wait();
  } catch (const kernels::DeviceError&) {
    averager_->give_up();
    throw;
  }
  Spread spread;
  for (const auto& member : members_) {
    const MixMeasure& measured = *as_measure(member->measured);
    spread.distance += static_cast<double>(measured.distance_square) / static_cast<double>(members_.size());
    spread.finite = spread.finite && std::isfinite(measured.largest);
    if (mixes != mixes_seen_) member->replica.count_mix();  // for workers that follow the swarm
  }
  mixes_seen_ = mixes;
  spread.distance = std::sqrt(spread.distance);
  return spread;
}

}  // namespace starling::training
