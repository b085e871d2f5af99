// A step of a network, in its only form: a stream of batches. feed() begins to train on a batch, and land()
// ends the oldest batch in flight. A network that computes the gradient of one batch at a time (as a whole,
// in stages with a flush, with divided layers) is a stream of depth one: feed() computes the gradient, and
// land() passes the update on. The stages of a pipeline without a flush hold several batches in flight and
// pass their updates on by themselves, on their own threads.
//
//   stream.feed(batches, arena);                // the next batch
//   while (stream.is_full()) stream.land(true);  // a loss
//   ...
//   while (stream.land(true)) {}                // at the end: what is in flight
//
// A stream has one user, on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "kernels/backend.h"
#include "models/arena.h"
#include "models/network.h"
#include "training/learning/batches.h"
#include "training/learning/feed.h"
#include "training/learning/slices/sliced_network.h"
#include "training/learning/stages/staged_network.h"
#include "training/learning/stages/streamed_network.h"

namespace starling::training {

// How a network is made: as a whole, in stages, or with divided layers.
using NetworkForm = std::variant<models::NetworkOptions, StagedOptions, SlicedOptions>;

class BatchStream {
 public:
  // The mean gradient of what a stage trains. A stream of depth one has one stage.
  using Update = StreamedNetwork::Update;
  // What a stream calls.
  struct Owner {
    // The factor on the learning rate of an update; in feed() or land(), whichever decides on the update.
    std::function<double()> rate_factor;
    // Adds an update to the arena; in land(), or on threads of stages.
    std::function<void(const Update&)> apply;
  };

  virtual ~BatchStream() = default;

  // Draws a batch and begins to train on it with the parameters of the arena. REQUIRES: !is_full(); the same
  // arena as the batches in flight.
  virtual void feed(Batches& batches, const models::Arena& arena) = 0;
  // Ends the oldest batch in flight: its updates have been passed on. Returns its mean loss, or on a device
  // the loss of two batches before (the first two excepted). nullopt: none is in flight. Without `updates` a
  // stream of depth one drops the update; stages have passed theirs on.
  virtual std::optional<double> land(bool updates) = 0;
  // Whether a batch must land before the next feed().
  virtual bool is_full() const = 0;
  virtual std::size_t in_flight() const = 0;

  // The ranges of the arena that each stage trains, if stages pass updates on by themselves; else empty.
  virtual std::vector<std::vector<FloatRange>> stages() const { return {}; }
  // The batch in flight in a stream of depth one, for an all-reduce: its gradient (arena_size() floats in the
  // back end's memory: the trained parameters, then the changes of running statistics) and the loss that
  // land() will return. null: none is in flight, or stages pass updates on by themselves.
  struct Computed {
    kernels::Buffer gradient;
    double loss = 0;
  };
  virtual Computed* computed() { return nullptr; }
  // What measures the stages; null if there are none. It may outlive the stream.
  virtual std::shared_ptr<const StageClock> stage_clock() const { return nullptr; }

  // Orders what the stream and its user do with the back end's memory.
  virtual kernels::Queue& queue() = 0;
  // Continues dropout's draws as after this number of batches. REQUIRES: none is in flight.
  virtual void set_draws(std::uint64_t batches) = 0;

  // Threads that compute a batch together, the one that calls feed() included.
  virtual std::size_t threads() const = 0;
  // Calls settle(k) on thread k of these; 0 is the caller's. REQUIRES: no batch is in flight.
  virtual void on_each_thread(const std::function<void(std::size_t)>& settle) = 0;
};

// `plan` and `backend` outlive the stream; `feed` is for batches of this size. Throws DeviceError. REQUIRES:
// check_stages() or check_slices() succeeds.
std::unique_ptr<BatchStream> make_batch_stream(const models::Plan& plan, const kernels::Backend& backend,
                                               Feed feed, int batch, const NetworkForm& form,
                                               BatchStream::Owner owner);

// The bytes that all threads of a divided network hold, without parameters and their gradient for the batch.
// REQUIRES: `form` is not a whole network's.
std::size_t divided_bytes(const models::Plan& plan, const kernels::Backend& backend, int batch,
                          const NetworkForm& form);

}  // namespace starling::training
