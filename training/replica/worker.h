// One Hogwild worker: its network, its batches, its optimizer state. It computes on the parameters it is
// shown and applies its update to the shared arena without a lock (Recht et al., "Hogwild!", NIPS 2011). The
// daemon calls compute and apply back to back on a thread per worker; the simulator computes at a step's
// start on a snapshot and applies at its end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "models/arena.h"
#include "models/network.h"
#include "training/replica/augment.h"
#include "training/replica/feed.h"
#include "training/records/worker_state.h"

namespace starling::training {

// Endless batches of indices into a shard: every epoch of the shard in a new order, batches run across its
// end.
class BatchSampler {
 public:
  BatchSampler(std::vector<std::uint32_t> shard, Random random);  // REQUIRES: shard is not empty
  void next(std::span<std::uint32_t> batch);

  Cursor cursor() const { return {order_, position_, state_of(random_)}; }
  Cursor cursor_before() const;  // the last next()
  // Goes on from there; an Error where that is in another shard, and then it changes nothing.
  Status set(Cursor cursor);

 private:
  std::vector<std::uint32_t> order_;
  Random random_;
  std::size_t position_ = 0;
  // Before the last batch; its order where it was another one.
  std::vector<std::uint32_t> order_before_;
  Random random_before_;
  std::size_t position_before_ = 0;
};

// What a worker makes of its gradients.
using Optimizer = std::variant<models::Arena::SgdStep, models::Arena::AdamWStep>;
// Vectors of the arena's size that it keeps.
std::size_t state_vectors(const Optimizer& optimizer);

// What computes a step: a network, and what feeds it.
struct Engine {
  models::Network network;
  Feed feed;
  kernels::Buffer gradient{};  // of a worker that computes on what it took; empty before the first of them
};

// Engines for steps of one kind. A worker has one to itself, or many workers on a host share some: then there are as
// many as compute at once, and a worker is no more than what it remembers. On any thread.
class Engines {
 public:
  // All arguments outlive it; `kept` is the same data on the back end's device, or null.
  Engines(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
          std::uint32_t batch_size, models::NetworkOptions options, std::shared_ptr<const kernels::Samples> kept);

  struct Return {
    Engines* engines;
    void operator()(Engine* engine) const;
  };
  using Lease = std::unique_ptr<Engine, Return>;
  // One that nobody else uses until the lease ends; another is made where all are in use.
  Lease take();

 private:
  std::function<std::unique_ptr<Engine>()> make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Engine>> idle_;
};

class Worker {
 public:
  // `plan`, `data` and `backend` outlive the worker; `kept` is the same data on the back end's device, or null.
  // `engines`: shared with others, of these same arguments and on a host; null: one of its own. REQUIRES: the plan
  // fits the data's shape and classes; a shared engine's network drops nothing by chance.
  Worker(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
         BatchSampler sampler, std::uint32_t batch_size, const Optimizer& optimizer,
         models::NetworkOptions options = {}, std::shared_ptr<const kernels::Samples> kept = nullptr,
         const std::shared_ptr<Engines>& engines = nullptr);

  // From now on its momentum is the swarm's: quasi-global momentum (Lin et al., ICML 2021), for unlike data.
  // The velocity m is fixed between mixes, each step goes along beta m + g; when the arena's mixes() have
  // grown, after k steps, m follows where the replica went since the last time, mixing included:
  //   mu_k = 1 - (1 - mu)^k,  m <- (1 - mu_k) m + mu_k (x_last - x) / (eta_1 + ... + eta_k).
  // `workers`: so many share the replica, so many times further it goes. There is no Nesterov's variant of
  // it. REQUIRES: the optimizer is SGD.
  void follow_swarm(std::uint32_t workers);
  static constexpr double kFollow = 0.1;  // mu

  // From now on images are cropped and flipped at random before the network sees them.
  void augment(Augmentation augmentation, Random random) { augmenter_.emplace(data_, augmentation, random); }

  // Draws the next batch and computes its mean loss and gradient on `parameters` (arena_size() floats, in the
  // back end's memory). A device does so behind the call's back, a batch or two later: there the loss is that
  // of the latest batch which is known to be done.
  double compute(const float* parameters);
  // The same in two calls, for a step that others work beside: the parameters are those at take(), and lie where the
  // gradient will. REQUIRES: the back end computes on a host.
  void take(const models::Arena& arena);
  double compute_taken();
  // These arena_size() floats lie there, of a step that was begun elsewhere: parameters that were taken, or a gradient.
  void put(std::span<const float> vector, bool is_gradient);
  // The vector in which both lie. A worker whose engines are shared has none until a step of its own needs one, and
  // does without it again after apply(). REQUIRES: of lend: it has none, the vector comes from give_back() of a
  // worker on the same network.
  void lend(kernels::Buffer vector) { gradient_ = std::move(vector); }
  kernels::Buffer give_back();
  // What that compute() found, for whoever averages it with other workers': the mean gradient of what is
  // trained, and behind it by how much running statistics change. arena_size() floats on the host, until the
  // next compute(); of a device's, a copy, for which this waits.
  std::span<const float> gradient();
  // apply() goes by this in its place: a mean of several workers'. REQUIRES: arena_size() floats.
  void replace_gradient(std::span<const float> mean);

  // Adds the update that the last compute() led to, at the optimizer's learning rate times `rate_factor`
  // (training/schedule.h); a device, in the order of the calls. REQUIRES: it is finite and not negative.
  void apply(models::Arena& arena, double rate_factor = 1);
  // Until the arena has the updates of all calls of apply() that have returned. On any thread.
  void wait() { applied_->wait(); }
  // The parameters are somebody else's from now on: what the optimizer remembers of its own is forgotten.
  void renew();

  // What it remembers, a step that was computed and not applied as if it had not begun. Waits for a device.
  // `arena`: of its replica. REQUIRES: no other call goes on.
  WorkerState save(const models::Arena& arena);
  // The same of a host's between two calls: a step that was computed and not applied stays one; its gradient is
  // gradient().
  WorkerState save_midway(const models::Arena& arena);
  // Goes on from there: with the same samples, images and chance; with what the optimizer remembered. Each is an
  // Error, and changes nothing, where the state is of another shard or another optimizer.
  Status restore_cursor(const WorkerState& state);
  Status restore_optimizer(const WorkerState& state, const models::Arena& arena);
  // The parameters are somebody else's from now on, and what the optimizer remembers stays: its steps were good ones
  // of the same run. Quasi-global momentum does not take the way from one replica to the other for its own.
  void moved() { followed_ = false; }

  std::uint32_t batch_size() const { return static_cast<std::uint32_t>(indices_.size()); }

 private:
  // Of a lane of the feed: the step as the device recorded it, when its last run was done, and the loss of that.
  struct Step {
    std::unique_ptr<kernels::Queue::Recording> recording;
    std::unique_ptr<kernels::Queue::Mark> done;
    kernels::Buffer loss;
    bool made = false;  // once at least

    kernels::LossValue* value() { return reinterpret_cast<kernels::LossValue*>(loss.data()); }
  };

  double compute(Engine& engine, const float* parameters, float* gradient);
  void need_gradient();
  static void clear(kernels::Buffer& vector);
  WorkerState save(const models::Arena& arena, bool step_begun);
  std::vector<float> copy_of(const kernels::Buffer& buffer);
  void fill(kernels::Buffer& buffer, const std::vector<float>& values);

  // Spans of a device's memory.
  std::span<float> all(kernels::Buffer& buffer) { return {buffer.data(), buffer.size()}; }
  std::span<const float> trained_gradient() const { return {gradient_.data(), velocity_.size()}; }

  kernels::Memory& memory_;
  kernels::Memory& staging_;
  std::shared_ptr<Engines> engines_;
  const datasets::Dataset& data_;
  BatchSampler sampler_;
  std::optional<Augmenter> augmenter_;
  std::optional<RandomState> images_before_;  // the last batch
  std::uint64_t draws_ = 0;                   // batches that its network has seen, in earlier lives too
  bool under_way_ = false;                    // a step is computed and not applied
  Optimizer optimizer_;
  std::vector<std::uint32_t> indices_;
  std::vector<Step> lanes_;
  std::size_t lane_ = 0;                 // of the next step
  const float* parameters_ = nullptr;    // that the recordings read
  std::size_t arena_floats_;
  kernels::Buffer gradient_;             // and what running statistics change by, behind the trained ones
  bool taken_ = false;                   // it holds parameters
  kernels::Buffer gradient_on_host_;     // of a device, once asked for
  kernels::Buffer velocity_;             // of AdamW: its means of gradients
  kernels::Buffer square_;               // of AdamW: its means of their squares
  std::uint64_t steps_ = 0;              // since those began at zero
  std::unique_ptr<kernels::Queue::Mark> applied_;

  void follow(const models::Arena& arena, kernels::Queue& queue);
  std::uint32_t workers_ = 0;  // that follow the swarm; 0: the momentum is this worker's own
  std::uint64_t mixes_seen_ = 0, steps_since_ = 0;
  double rates_since_ = 0;   // the sum of the learning rates of those steps
  kernels::Buffer last_;     // the replica when mixes were last seen to grow
  bool followed_ = false;    // whether it has been seen at all
};

// Accuracy and mean loss of some parameters on (the first `limit` samples of) a set; zeros for an empty one.
// Holds a forward-only network.
class Evaluator {
 public:
  // All three outlive the evaluator; the replicas it judges lie in the back end's memory. REQUIRES: batch > 0;
  // the plan fits the data's shape and classes.
  Evaluator(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
            int batch = kBatch);
  static constexpr int kBatch = 64;  // ResNet-18 then takes a quarter of what training it takes

  struct Score {
    double accuracy = 0;
    double loss = 0;
  };
  Score evaluate(const float* parameters, std::size_t limit = SIZE_MAX);
  // The same for several replicas at once: each sample is read once for all.
  std::vector<Score> evaluate(std::span<const float* const> replicas, std::size_t limit = SIZE_MAX);

 private:
  models::Network network_;
  const datasets::Dataset& data_;
  Feed feed_;
  std::vector<std::uint32_t> indices_;
};

}  // namespace starling::training
