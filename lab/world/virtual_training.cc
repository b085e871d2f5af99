#include "lab/world/virtual_training.h"

#include <algorithm>
#include <utility>

namespace starling::lab {

void VirtualTraining::clear(const gossip::Peer& core) {
  core_ = &core;
  running_ = resting_ = false;
  since_.reset();
  earlier_steps_ += std::exchange(steps_, 0);
  earlier_samples_ += std::exchange(samples_, 0);
}

void VirtualTraining::start() {
  running_ = true;
  since_ = machine_.now();
  if (!world_.training_began) world_.training_began = machine_.now();
  stepping_.assign(machine_.options().workers, false);
  begin_steps();
}

void VirtualTraining::pause(bool discard) {
  resting_ = true;
  if (discard) ++era_;
}

void VirtualTraining::resume() {
  resting_ = false;
  begin_steps();
}

// On every idle worker, unless training is over or rests.
void VirtualTraining::begin_steps() {
  if (!running_ || resting_) return;
  for (std::uint32_t worker = 0; worker < machine_.options().workers; ++worker) {
    if (!stepping_[worker]) begin_step(worker);
  }
}

void VirtualTraining::begin_step(std::uint32_t worker) {
  stepping_[worker] = true;
  const MachineOptions& options = machine_.options();
  double seconds = to_seconds(options.step) * machine_.mishaps().slowness_of_step(machine_.now(), begun_++);
  if (options.step_spread > 0)
    seconds *= 1 - options.step_spread + options.step_spread * machine_.random().exponential();
  const Duration time = std::max(Duration{1}, from_seconds(seconds));
  const Instant end = machine_.now() + time;
  replica_.learner->begin_step(worker, *replica_.arena, end);
  world_.watcher.step_began(machine_.index(), time);
  machine_.later(end, [this, worker, era = era_] { end_step(worker, era); });
}

void VirtualTraining::end_step(std::uint32_t worker, std::uint64_t era) {
  stepping_[worker] = false;
  if (!running_ || era != era_) {
    replica_.learner->discard_step(worker);
    world_.watcher.step_discarded(machine_.index());
    return begin_steps();
  }
  replica_.learner->swarm_has_consumed(core_->view().swarm_samples);
  const std::uint64_t consumed = replica_.learner->end_step(worker, *replica_.arena);
  ++steps_;
  samples_ += consumed;
  world_.samples += consumed;
  world_.watcher.step_ended(machine_.index());
  machine_.step(gossip::Stepped{steps_, samples_});
  if (machine_.up()) begin_steps();
}

}  // namespace starling::lab
