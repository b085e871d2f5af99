// A checkpoint of a simulation. It contains values only: what happened in virtual time follows from the
// experiment and is repeated, without computing gradients, up to the same happening; then the values of the
// file replace those of the world. The resumed run equals one that was never stopped, to the last digit.
//
// This is not possible if decisions depended on values (a replica that diverged, a poisoned chunk that was
// rejected): then the trace differs, and the run starts over, with the same result.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/simulate/training_learner.h"
#include "lab/world/world.h"
#include "training/records/safetensors.h"

namespace starling::lab {

inline constexpr const char* kSimulationFile = "simulation.safetensors";

// The moment of the checkpoint.
struct SimulationPlace {
  std::uint64_t happenings = 0;  // in the world
  std::uint64_t trace = 0;       // hash of the happenings
  std::uint64_t samples = 0;
  std::uint64_t metrics_bytes = 0;  // of metrics.jsonl
};

// Writes atomically. `learners`: the latest of each machine that trains, else null. `experiment`: its text.
Status write_simulation(const std::string& path, const std::string& experiment, const SimulationPlace& place,
                        World& world, const std::vector<TrainingLearner*>& learners);

class SimulationFile {
 public:
  // An Error if the file is damaged, or not a checkpoint of this experiment.
  static Result<SimulationFile> open(const std::string& path, const std::string& experiment);

  const SimulationPlace& place() const { return place_; }
  // Puts the values into a world at the same happening. After an Error, which names what differs, the world
  // is unusable.
  Status put_into(World& world, const std::vector<TrainingLearner*>& learners) const;

 private:
  SimulationFile(training::SafetensorsFile file, SimulationPlace place)
      : file_(std::move(file)), place_(place) {}
  Result<std::vector<std::byte>> read(const std::string& tensor) const;

  training::SafetensorsFile file_;
  SimulationPlace place_;
};

}  // namespace starling::lab
