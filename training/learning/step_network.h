// What a worker computes a step with: a whole network, or one on several threads: in stages, with or without
// a flush, or with divided layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <variant>

#include "kernels/backend.h"
#include "models/network.h"
#include "training/learning/slices/sliced_network.h"
#include "training/learning/stages/staged_network.h"
#include "training/learning/stages/streamed_network.h"

namespace starling::training {

class StepNetwork {
 public:
  virtual ~StepNetwork() = default;

  virtual kernels::Queue& queue() = 0;
  // As of models::Network.
  virtual int predictions() const = 0;
  virtual void start_training(const float* parameters, const float* inputs, const std::int32_t* labels,
                              float* gradient, kernels::LossValue* value) = 0;
  virtual void set_draws(std::uint64_t batches) = 0;

  // If batches follow one another without a flush: what trains instead of start_training(). Else null.
  virtual StreamedNetwork* stream() { return nullptr; }

  // Bytes that all threads hold, without parameters and their gradient for the batch; 0 for a whole network.
  virtual std::size_t divided_bytes() const { return 0; }

  // Threads that compute a step together, the one that calls start_training() included.
  virtual std::size_t threads() const { return 1; }
  // Calls settle(k) on thread k of these; 0 is the caller's.
  virtual void on_each_thread(const std::function<void(std::size_t)>& settle) { settle(0); }
};

// How a network is made: as a whole, in stages, or with divided layers.
using NetworkForm = std::variant<models::NetworkOptions, StagedOptions, SlicedOptions>;

// `plan` and `backend` outlive the network. REQUIRES: check_stages() or check_slices() succeeds.
std::unique_ptr<StepNetwork> make_step_network(const models::Plan& plan, const kernels::Backend& backend,
                                               int batch, const NetworkForm& form);

}  // namespace starling::training
