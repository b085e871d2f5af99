// A network whose layers are divided among parts, each on a thread of its own (slice_plan.h): it computes the
// loss and the gradient of a batch like models::Network. Its user does not notice the parts.
//
// All parts compute the same batch, each with its own channels, units or heads, straight from the caller's
// parameters into the caller's gradient. Forward, the parts write their channels into one gathered value
// before a layer that needs all of them. Backward, each part of such a layer has a partial gradient of its
// input, and each part of the layer before sums, in the order of the parts, what belongs to its channels. So
// the loss and all values equal the whole network's, and gradients differ only by the order of sums. Dropout
// draws as in the whole network.
//
// Parts may compute on devices. Then gathered values and partial gradients are on the host, and a part has a
// copy of its parameters, which it renews in every batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "models/spec.h"

namespace starling::training {

struct SlicedOptions {
  std::size_t parts = 1;
  std::uint64_t seed = 0;  // of dropout's draws
  // That of each part, all of one kind; they outlive the network. Empty: all compute on the network's.
  std::vector<const kernels::Backend*> backends{};
};

// Bytes that a part holds, without parameters and their gradients.
struct SliceMemory {
  std::size_t sections = 0;  // activations, their gradients and workspaces
  std::size_t slices = 0;    // channels that it takes of gathered values, or gives to them
  std::size_t shared = 0;    // gathered values, which all parts read; counted for part 0
  std::size_t total() const { return sections + slices + shared; }
};

// Bytes of a batch that one part computes and another one reads.
struct SliceTraffic {
  std::size_t gathered = 0;  // values, forward
  std::size_t reduced = 0;   // gradients, backward
};

// Whether a plan can be divided so. The Error says what is possible.
Status check_slices(const models::Plan& plan, int batch, const SlicedOptions& options);

class SlicedNetwork {
 public:
  // `plan` and `backend` outlive the network. Throws DeviceError, and so does train(). REQUIRES:
  // check_slices() succeeds; `backend` computes on the host, where parameters and gradients are.
  SlicedNetwork(const models::Plan& plan, const kernels::Backend& backend, int batch,
                const SlicedOptions& options);
  ~SlicedNetwork();

  std::size_t parts() const;
  int predictions() const;  // of a batch: one for each sample, or for each token of a text

  // As models::Network::train().
  double train(const float* parameters, const float* inputs, const std::int32_t* labels, float* gradient);
  // Continues dropout's draws as after this number of batches.
  void set_draws(std::uint64_t batches);

  // Calls settle(k) on the thread of each part k. Part 0 uses the caller's thread, which must also call
  // train(). REQUIRES: train() is not running.
  void on_each_thread(const std::function<void(std::size_t)>& settle);

  SliceMemory memory(std::size_t part) const;
  SliceTraffic traffic() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling::training
