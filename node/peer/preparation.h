// Prepares a peer for its run: reads the data, builds the model, the replica, the mixer and the trainer, and
// writes the first parameters. The slow part runs on the builder's thread.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "gossip/rules.h"
#include "node/peer/parts.h"
#include "training/experiment/schedule.h"
#include "wire/messages.h"

namespace starling::node {

class Preparation {
 public:
  // `leave`: called when a trainer outside the process makes no more steps.
  Preparation(PeerParts& parts, std::function<void(const std::string& why)> leave)
      : parts_(parts), leave_(std::move(leave)) {}

  // Reads a joiner's own copy of the data while it searches for the swarm.
  void load_own_data();
  // Builds the replica, then calls `done`: what the swarm trains, or without its manifest what the options
  // say, for a peer that begins a run.
  void build(std::optional<wire::Manifest> swarms, std::function<void(Status)> done);
  // The manifest of a run that this peer begins. REQUIRES: the replica is built.
  wire::Manifest own_manifest() const;

  // Makes the mixer and the trainer, and attaches the exchanger. `stepped` is called on workers' threads.
  // REQUIRES: the replica is built.
  Result<gossip::RunRules> attach(const wire::Manifest& manifest, std::function<void()> stepped);

  // The arena now has another member's parameters.
  void take_copied_parameters();
  // Before the first step: a peer that has copied no parameters writes the first ones. It begins the run, for
  // the first time, after a blackout or from a checkpoint.
  void initialize();

  // Sets the learning rate for the swarm's progress as the core knows it.
  void follow_schedule();

 private:
  using Built = Result<std::unique_ptr<Replica>>;
  Built make(Result<datasets::DataPair> data, const PlanCheck& check = {}) const;
  Status check_epoch(std::uint64_t samples) const;
  Built make_outside();
  Built build_of(const wire::Manifest& manifest);
  Result<datasets::DataPair> joiners_data(const wire::Manifest& manifest);
  Built build_outside(const wire::Manifest& manifest);
  Built with_state(Built replica);
  // attach(), but an allocation that fails throws.
  Result<gossip::RunRules> make_parts(const wire::Manifest& manifest, std::function<void()> stepped);
  std::unique_ptr<Trainer> make_trainer(const gossip::RunRules& rules, std::function<void()> stepped);

  PeerParts& parts_;
  const std::function<void(const std::string& why)> leave_;
  std::optional<Result<datasets::DataPair>> own_data_;
  std::vector<float> first_parameters_;  // from a file; empty: drawn from the seed
  training::Schedule schedule_;
  bool copied_ = false;  // the parameters are another member's
};

}  // namespace starling::node
