// The replicas of one peer that trains on several devices, and how they stay one replica to everybody else.
//
// Each device has a replica of its own, which its workers train by themselves. The peer's arena is another
// one: partners exchange with it alone, and know of no devices. Now and then the devices average
// (hierarchical local SGD: Lin et al., "Don't use large mini-batches, use local SGD", ICLR 2020, section 5),
// and nobody stops for it: with the snapshots s_i of the replicas x_i, the peer's arena E, and the mean m of
// the last time,
//
//   m' = mean(s_i) + (E - m)       what partners did to the peer since then belongs to it,
//   x_i += m' - s_i,  E += m' - E  differences, so that steps and exchanges meanwhile are lost to nobody.
//
// To the outside the devices together are as one that computes batches as many times larger: they should be
// alike.
#pragma once

#include <memory>
#include <vector>

#include "kernels/averager.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "models/arena.h"

namespace starling::training {

class DeviceGroup {
 public:
  // `peer`, which lies in the memory of the first back end, and the back ends outlive the group. REQUIRES: at
  // least one. Throws DeviceError, here and below.
  DeviceGroup(models::Arena& peer, const std::vector<const kernels::Backend*>& backends);
  ~DeviceGroup();

  // So many vectors of the arena's size it keeps on a device beside the replica.
  static constexpr std::size_t vectors(bool first) { return first ? 5 : 2; }

  std::size_t size() const { return members_.size(); }
  models::Arena& replica(std::size_t device) { return members_[device]->replica; }
  std::string_view way() const { return averager_->name(); }  // by which they average

  // All replicas become what the peer's arena is. REQUIRES: nobody changes any of them meanwhile.
  void adopt();

  // What one average has seen: how far the replicas were from their mean (the root of the mean of the squared
  // distances), and whether all is finite.
  struct Spread {
    double distance = 0;
    bool finite = true;
  };
  // One thread at a time, whatever workers and exchanges do meanwhile. Returns when it is done. After an
  // Error of a device the group is good for nothing any more.
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
