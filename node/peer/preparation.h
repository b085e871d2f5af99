// Prepares a peer for its run: reads the data, builds the model, the replica, the mixer and the trainer, and
// puts the first parameters in place. The heavy part runs on the builder's thread.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "gossip/rules.h"
#include "node/peer/parts.h"
#include "node/work/background.h"
#include "training/experiment/schedule.h"
#include "wire/messages.h"

namespace starling::node {

class Preparation {
 public:
  Preparation(PeerParts& parts, Background& builder) : parts_(parts), builder_(builder) {}

  // A joiner's own copy of the data, read while it looks for the swarm.
  void load_own_data();
  // For a peer that begins a run: builds the replica, then calls done(the run's manifest).
  void begin(std::function<void(Result<wire::Manifest>)> done);
  // For a joiner: builds the replica that the swarm trains, then calls `done`.
  void join(const wire::Manifest& manifest, std::function<void(Status)> done);

  // Makes the mixer and the trainer, and attaches the exchanger. `stepped` is called on workers' threads.
  // REQUIRES: the replica is built.
  Result<gossip::RunRules> attach(const wire::Manifest& manifest, std::function<void()> stepped);

  // A member's parameters are in the arena.
  void take_copied_parameters();
  // Before the first step: a peer that has copied nothing (it begins the run, for the first time, after a
  // blackout or from a checkpoint) writes the first parameters.
  void initialize();

  // The learning rate follows what the core knows of the swarm's progress.
  void follow_schedule();

 private:
  using Built = Result<std::unique_ptr<Replica>>;
  Built build_own();
  Built build_of(const wire::Manifest& manifest);
  Built with_state(Built replica);

  PeerParts& parts_;
  Background& builder_;
  std::optional<Result<datasets::DataPair>> own_data_;
  std::vector<float> first_parameters_;  // from a file; empty: drawn from the seed
  training::Schedule schedule_;
  bool copied_ = false;  // all parameters, from another member
};

}  // namespace starling::node
