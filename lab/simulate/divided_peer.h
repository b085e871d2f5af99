// How the devices of a simulated peer share its training, and how long that takes: each has a replica (data),
// consecutive layers (stages: pipelined_peer.h), or a part of each layer (layers). The peer learns by the
// classes of real peers: device_learner.h for replicas, else the gradient of the whole network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/simulate/pipelined_peer.h"
#include "models/spec.h"
#include "training/runs/experiment/experiment.h"

namespace starling::lab {

// Each device has a replica. In seconds.
struct ReplicaTimes {
  std::vector<double> steps;  // of a batch, by device
  // That each device waits for a mean of all replicas: their parameters go around a ring (all_reduce.cc).
  double average = 0;
  std::uint32_t average_every = 1;  // steps of each device
  // From one batch of the peer to the next one, on average over all devices.
  double interval() const;
};
// `step`: as of pipelined_peer().
ReplicaTimes replica_times(const models::Plan& network, const SimulatedDevices& devices, double step,
                           std::uint32_t average_every);

// Each device computes a part of each layer (training/learning/slices/slice_plan.h), and waits for the others
// before a layer that needs what they computed. In seconds, of a batch. A device has a link of the bandwidth,
// in each direction, to the others.
struct SliceTimes {
  double computing = 0;  // of the slowest device, from one such layer to the next one
  double transfers = 0;  // of values forward and of gradients backward
  double gathered = 0;   // bytes that one device computes and another one reads, forward
  double reduced = 0;    // the same backward
};
SliceTimes slice_times(const models::Plan& network, const SimulatedDevices& devices, std::uint32_t samples,
                       double step);

struct DividedPeer {
  training::Experiment settled;  // the peer's, with all that its split leaves open
  double step = 0;               // seconds from one batch to the next one
  std::optional<PipelinedPeer> pipeline{};
  std::optional<ReplicaTimes> replicas{};
  std::string text{};  // what its devices divide, and with `auto` why: training::split_text()
};

// For a peer with the experiment `own` (training::of_peer()); nullopt if it has fewer than two devices. With
// `auto` the faster of data and stages, as these times predict, if the devices' memory suffices for both; the
// planner makes the stages for the devices' links and memory. Nothing is measured, so the result depends only
// on the experiment. The Error names the setting.
Result<std::optional<DividedPeer>> divided_peer(const training::Experiment& own, const models::Plan& network);

}  // namespace starling::lab
