// The memory that training needs, known before it starts: networks are made as in a peer, on the host without
// memory, and report their sizes. The accounting follows Rajbhandari et al., "ZeRO" (SC 2020): weights,
// gradients and the optimizer's state grow with the model, activations with the batch. All figures are exact
// except PeerMemory::process, which was measured, and device_memory(), which estimates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "models/spec.h"
#include "training/learning/worker.h"
#include "training/runs/experiment/experiment.h"

namespace starling::training {

// Per parameter. All workers share the weights; each worker has the rest.
struct ParameterBytes {
  std::size_t weight = 0, gradient = 0, optimizer = 0;
};

// For one layer of the plan, all workers together.
struct LayerBytes {
  std::size_t weights = 0, gradients = 0, optimizer = 0;
  std::size_t activations = 0, workspace = 0;
  int counted_at = 0;  // the layer that the activations are counted at: models::LayerMemory
};

// All workers together.
struct TrainingMemory {
  ParameterBytes parameter;
  std::uint32_t batch_size = 0, workers = 0;
  std::vector<LayerBytes> layers;  // as in the plan
  // Sums over the layers.
  std::size_t weights = 0, gradients = 0, optimizer = 0;
  std::size_t kept = 0;         // activations from the forward to the backward pass
  std::size_t kept_of_all = 0;  // the same if none were computed again
  // What the layers share.
  std::size_t batch = 0;      // samples and labels
  std::size_t backward = 0;   // gradients of activations
  std::size_t scratch = 0;    // in which one operation after another works
  std::size_t workspace = 0;  // the layers' own, and the scratch

  std::size_t activations() const { return kept + batch + backward + workspace; }
  std::size_t total() const { return weights + gradients + optimizer + activations(); }
};
TrainingMemory training_memory(const Experiment& experiment, const models::Plan& plan,
                               const kernels::Backend& backend);

// The largest resident memory of a process that trains by the rule pairwise; without the data set if it is
// not known.
struct PeerMemory {
  std::size_t training = 0;    // TrainingMemory::total()
  std::size_t evaluation = 0;  // at the run's end, when only the weights are left of the above
  std::size_t exchange = 0;    // chunks on their way, at most
  std::size_t data = 0;        // both sets, and an order of the samples for each worker
  std::size_t process = kProcess;

  std::size_t peak() const { return std::max(training, evaluation) + exchange + data + process; }

  // Code, libraries, threads and what they allocate: 21 to 23 MB with LeNet and small networks, 26 to 29 with
  // ResNet-8 and ResNet-18, for whose convolutions oneDNN generates code.
  static constexpr std::size_t kProcess = 25'000'000;
};
// REQUIRES: `memory` is of this plan. `data` may be null.
PeerMemory peer_memory(const TrainingMemory& memory, const models::Plan& plan,
                       const kernels::Backend& backend, const datasets::DataPair* data);

// A lower bound of training_memory(), from the plan alone: the parameters with all that is as large as they,
// the batch, and the inputs that convolutions and linear layers keep (with recomputation the largest one).
std::size_t least_training_memory(const Experiment& experiment, const models::Plan& plan);
// No network of the zoo needs more than this multiple of the bound without recomputation; most need 1 to 5
// times as much. Small batches of ResNet-8 need 12 times as much, because of workspaces.
inline constexpr std::size_t kLeastMemoryMultiple = 16;

// training_memory().total(). REQUIRES: the back end computes on the host.
std::size_t host_training_memory(const Experiment& experiment, const models::Plan& plan,
                                 const kernels::Backend& backend);

// An estimate of a replica's memory on a device that is too small for it: extrapolates linearly from batches
// that fit, although libraries may choose other algorithms and workspaces. Without the memory of libraries
// and driver, and of samples that a larger device would keep. REQUIRES: the device does not hold the replica.
// Throws OutOfDeviceMemory if a batch of 2 does not fit.
std::size_t device_memory(const Experiment& experiment, const models::Plan& plan,
                          const kernels::Backend& backend);

}  // namespace starling::training
