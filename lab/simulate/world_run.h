// One run of an experiment in a world of virtual machines, from its start or from a checkpoint. A run from a
// checkpoint first repeats what happened, without computing, and then takes the values of the checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/simulate/run_watch.h"
#include "lab/simulate/simulation_file.h"
#include "lab/simulate/steps_ahead.h"
#include "lab/simulate/training_learner.h"
#include "lab/simulate/virtual_run.h"
#include "lab/world/world.h"
#include "training/records/record.h"

namespace starling::lab {

class WorldRun {
 public:
  // `from`: null for a run from its start. All arguments outlive the run.
  static Result<std::unique_ptr<WorldRun>> make(const training::Experiment& experiment,
                                                const SimulateOptions& options,
                                                const training::RunFolder& folder,
                                                const SimulationFile* from);

  // Runs to the end and writes the results. nullopt if the world does not reach the state of the checkpoint.
  Result<std::optional<training::Summary>> run();

 private:
  WorldRun(const SimulateOptions& options, const training::RunFolder& folder, const SimulationFile* from,
           std::unique_ptr<VirtualRun> run, WorldOptions world, std::vector<float> first_parameters);

  std::unique_ptr<Learner> make_learner(std::uint32_t machine);
  // False if the world is not the one of the checkpoint.
  bool restore_if_reached();
  bool check_is_due();
  Status end_if_interrupted();
  // False if no machine has parameters: peers without any would wait forever.
  bool can_continue();
  void after_step();
  void end();

  void evaluate();
  void write_checkpoint();
  Result<training::Summary> finish();
  void add_machine(std::uint32_t i, training::Summary& summary) const;
  // The servers' model, a part from each; empty if the rule has no servers or one of them has no parameters.
  std::vector<float> served_model() const;

  const SimulateOptions& options_;
  const training::RunFolder& folder_;
  const SimulationFile* from_;
  const std::unique_ptr<VirtualRun> run_;
  const training::Experiment& experiment_;
  StepsAhead ahead_;
  RunWatch watch_;
  std::vector<TrainingLearner*> learners_;  // of each machine that trains, the latest
  bool rehearsing_;                         // until the world has the state of the checkpoint
  World world_;

  std::optional<Error> failure_{};
  std::uint64_t happenings_ = 0, samples_ = 0;
  Instant last_step_{}, last_check_{};
  bool ending_ = false, interrupted_ = false;
};

}  // namespace starling::lab
