// Prepares a peer for its run: reads the data, builds the model, the replica, the mixer and the trainer, and
// writes the first parameters. The slow part runs on the builder's thread.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "gossip/rules.h"
#include "node/keep/peer_cache.h"
#include "node/peer/listening.h"
#include "node/peer/lives.h"
#include "training/runs/experiment/schedule.h"
#include "wire/messages.h"

namespace starling::node {

class Preparation {
 public:
  // `leave`: called when a trainer outside the process makes no more steps.
  Preparation(Started& started, Listening& listening, Lives& lives,
              std::function<void(const std::string& why)> leave)
      : started_(started), listening_(listening), lives_(lives), leave_(std::move(leave)) {}

  // Reads a joiner's own copy of the data while it searches for the swarm.
  void load_copy();
  // Builds the replica and begins the life Built, then calls `done`: what the swarm trains, or without its
  // manifest what the options say, for a peer that begins a run.
  void build(std::optional<wire::Manifest> swarms, std::function<void(Status)> done);
  // The manifest of a run that this peer begins. REQUIRES: it is Built.
  wire::Manifest own_manifest() const;

  // Makes the mixer and the trainer, begins the life Equipped, and attaches the exchanger. `stepped` is
  // called on workers' threads. REQUIRES: the peer is Built and Running, and has the run's manifest.
  Result<gossip::RunRules> attach(std::function<void()> stepped);

  // The arena now has another member's parameters.
  void take_copied_parameters();
  // Before the first step, or others copy: a peer that has copied no parameters writes the first ones. It
  // begins the run, for the first time, after a blackout or from a checkpoint.
  void initialize();

  // The first tensor, in the arena or in what a trainer has posted, with values that no member accepts, as a
  // clause; empty if there is none.
  std::string unacceptable_tensor() const;
  // Sets the learning rate for the swarm's progress as the core knows it.
  void follow_schedule();

 private:
  // On the builder's thread.
  using Making = Result<Built>;
  Making make(training::Experiment experiment, Result<datasets::DataPair> data,
              const PlanCheck& check = {}) const;
  Making build_own() const;
  Making make_outside() const;
  Making build_of(const wire::Manifest& manifest);
  Result<datasets::DataPair> joiners_data(const training::Experiment& experiment,
                                          const wire::Manifest& manifest, const RunFacts& facts);
  Making build_outside(training::Experiment experiment, const wire::Manifest& manifest) const;
  Making with_state(Making built);

  // attach(), but an allocation that fails throws.
  Result<gossip::RunRules> make_parts(std::function<void()> stepped);
  TrainerState trainer_state() const;
  std::unique_ptr<OutsideTrainer> make_outside_trainer(const gossip::RunRules& rules,
                                                       const training::RateSchedule& schedule,
                                                       std::function<void()> stepped);
  std::unique_ptr<Trainer> make_workers(const gossip::RunRules& rules, const training::RateSchedule& schedule,
                                        std::function<void()> stepped);

  Started& started_;
  Listening& listening_;
  Lives& lives_;
  const std::function<void(const std::string& why)> leave_;
  bool initialized_ = false;
  std::optional<Result<datasets::DataPair>> copy_;  // a joiner's copy of the data, once it is read
};

}  // namespace starling::node
