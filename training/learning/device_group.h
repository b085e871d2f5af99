// The replicas of one peer that trains on several devices and appears as one replica to other peers.
//
// Each device has its own replica, trained by its workers. The peer's arena is separate; partners exchange
// only with it. From time to time the devices average without stopping training (hierarchical local SGD: Lin
// et al., "Don't use large mini-batches, use local SGD", ICLR 2020, section 5). With the snapshots s_i of the
// replicas x_i, the peer's arena E, and the last mean m:
//
//   m' = mean(s_i) + (E - m)       includes what exchanges changed since then,
//   x_i += m' - s_i,  E += m' - E  as differences, so that concurrent steps and exchanges are not lost.
//
// Together n devices act as one with batches n times as large, so they should be equally fast.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/averager.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "models/arena.h"

namespace starling::training {

class DeviceGroup {
 public:
  // `peer`, in the memory of the first back end, and the back ends outlive the group. REQUIRES: at least one
  // back end. All functions throw DeviceError.
  DeviceGroup(models::Arena& peer, const std::vector<const kernels::Backend*>& backends);
  ~DeviceGroup();

  // The number of vectors of the arena's size that a device holds besides the replica.
  static constexpr std::size_t vectors(bool first) { return first ? 5 : 2; }

  std::size_t size() const { return members_.size(); }
  models::Arena& replica(std::size_t device) { return members_[device]->replica; }
  // The last mean, a part of the group's state. REQUIRES: the devices compute on the host; no average runs.
  std::span<float> mean() { return members_.front()->mean.values(); }
  std::string_view way() const { return averager_->name(); }  // how they average

  // Copies the peer's arena to all replicas. REQUIRES: none of them changes meanwhile.
  void adopt();

  // Measured by an average: the distance of the replicas from their mean (root mean square), and whether all
  // values are finite.
  struct Spread {
    double distance = 0;
    bool finite = true;
  };
  // For one thread at a time, during steps and exchanges. Returns when it is done. After a DeviceError the
  // group must not be used again.
  Spread average();

 private:
  void start_average();
  void wait();
  struct Member {
    Member(const kernels::Backend& b, std::size_t floats);

    const kernels::Backend& backend;
    std::unique_ptr<kernels::Queue> queue;
    models::Arena replica;
    kernels::Buffer snapshot, mean;
    kernels::Buffer measure, measured;  // a MixMeasure, on the device and on the host
    std::unique_ptr<kernels::Queue::Mark> done;
  };

  models::Arena& peer_;
  std::vector<std::unique_ptr<Member>> members_;
  std::unique_ptr<kernels::Averager> averager_;
  kernels::Buffer peer_now_;      // of the first device: the peer's arena as it was found
  kernels::Buffer contribution_;  // what the first device brings to the mean
  std::uint64_t mixes_seen_ = 0;
};

}  // namespace starling::training
