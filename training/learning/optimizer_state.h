// The state of an optimizer between the steps of one worker: its velocity, or its means of gradients and of
// their squares, and for quasi-global momentum an earlier replica. It also clips gradients, and knows which
// tensors decay. All vectors are in the memory of the back end; the caller passes the queue that orders the
// work.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/result.h"
#include "kernels/buffer.h"
#include "kernels/queue.h"
#include "models/arena.h"
#include "models/layout.h"
#include "training/runs/records/peer_state.h"

namespace starling::training {

using Optimizer = std::variant<models::Arena::SgdStep, models::Arena::AdamWStep>;
// The number of vectors of the arena's size that the optimizer keeps.
std::size_t state_vectors(const Optimizer& optimizer);

// For each block of kDecayBlock trained floats whether AdamW's weight decay applies: to tensors with two or
// more dimensions, not to biases and to the scales and shifts of normalizations.
std::vector<std::uint8_t> decayed_blocks(const models::Layout& layout);

class OptimizerState {
 public:
  // For the trained parameters of the layout. Gradients longer than `clip_norm` are scaled down to it; 0:
  // none. `memory` outlives the state. Waits for the queue.
  OptimizerState(const Optimizer& optimizer, const models::Layout& layout, float clip_norm,
                 kernels::Memory& memory, kernels::Queue& queue);

  std::size_t trained() const { return velocity_.size(); }

  // Switches to quasi-global momentum (Lin et al., ICML 2021), the swarm's direction, for unlike data.
  // The velocity m is fixed between mixes, and each step goes along beta m + g. When the arena's mixes() have
  // grown, after k steps, m follows the change of the replica since then, mixing included:
  //   mu_k = 1 - (1 - mu)^k,  m <- (1 - mu_k) m + mu_k (x_last - x) / (eta_1 + ... + eta_k).
  // `workers` share the replica, so it moves that many times further. It has no Nesterov variant. REQUIRES:
  // the optimizer is SGD.
  void follow_swarm(std::uint32_t workers, kernels::Queue& queue);
  static constexpr double kFollow = 0.1;  // mu

  // Adds the update for this gradient, clipped, to the arena, at the optimizer's learning rate times
  // `rate_factor`.
  void apply(models::Arena& arena, std::span<const float> gradient, double rate_factor,
             kernels::Queue& queue);
  // The update number `t`, from 1, of the parameters from `offset` on, of which `gradient` holds as many as
  // it has. Several threads may each do this for other parameters. count_updates() follows when all
  // parameters had that many further updates. REQUIRES: nothing is clipped and no momentum follows the swarm;
  // the arena is on the host; `offset` is a multiple of kDecayBlock.
  void apply_part(models::Arena& arena, std::size_t offset, std::span<const float> gradient,
                  double rate_factor, std::uint64_t t);
  void count_updates(std::uint64_t count) { steps_ += count; }
  std::uint64_t updates() const { return steps_; }  // since the state was empty, where the optimizer counts

  // The replica's parameters were replaced: resets the state. AdamW's first steps with empty means are as
  // long as any, in whatever direction the first gradients have, so its rate rises linearly over the next
  // `warm_up` steps; 0: at once.
  void renew(kernels::Queue& queue, std::uint64_t warm_up = 0);
  // The replica's parameters were replaced by others of the same run: keeps the momentum, but quasi-global
  // momentum does not count the change from one replica to the other.
  void moved() { following_.begun = false; }

  // Fills the optimizer's part of `state`. Waits for the queue.
  void save(WorkerState& state, const models::Arena& arena, kernels::Queue& queue) const;
  // Error, and no change, if the state is of another optimizer. Waits for the queue.
  Status restore(const WorkerState& state, const models::Arena& arena, kernels::Queue& queue);

 private:
  struct Following {
    std::uint32_t workers = 0;  // that share the replica; 0: the momentum is this worker's own
    std::uint64_t mixes_seen = 0, steps_since = 0;
    double rates_since = 0;  // the sum of the learning rates of those steps
    kernels::Buffer last;    // the replica when mixes were last seen to grow
    bool begun = false;      // `last` is valid
  };

  void follow(const models::Arena& arena, kernels::Queue& queue);
  double warmed_up(double rate_factor, std::uint64_t t) const;

  Optimizer optimizer_;
  const float clip_norm_;
  kernels::Memory& memory_;
  kernels::Buffer velocity_;  // AdamW: means of gradients
  kernels::Buffer square_;    // AdamW: means of squared gradients
  std::uint64_t steps_ = 0;   // AdamW: since both were zero
  std::uint64_t warm_up_ = 0;
  // What the optimizer's steps point to.
  kernels::Staged<models::Arena::Clip> clip_;  // none: no gradient is clipped
  kernels::Buffer decays_;                     // decayed_blocks(); empty: all decay
  Following following_;
};

}  // namespace starling::training
