// A simulation in a file, to go on from. What happened in virtual time is not in it: that follows from the
// experiment and is gone through once more, without computing a gradient, until as much has happened; then
// the values are put in place that the file holds. So the run that goes on equals the one that was not
// stopped, to the last digit.
//
// This cannot be where decisions hung on values (a replica that diverged, a lie that was refused for being
// one): the trace then differs, and who goes on begins anew, with the same result.
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

// Where it stood.
struct SimulationPlace {
  std::uint64_t happenings = 0;  // run in the world
  std::uint64_t trace = 0;       // of them
  std::uint64_t samples = 0;
  std::uint64_t metrics_bytes = 0;  // of metrics.jsonl
};

// Whole or not at all. `learners`: of each machine that trains the latest, null for the rest. `experiment`:
// its text.
Status write_simulation(const std::string& path, const std::string& experiment, const SimulationPlace& place,
                        World& world, const std::vector<TrainingLearner*>& learners);

class SimulationFile {
 public:
  // An Error where it is not whole, or none, or of another experiment.
  static Result<SimulationFile> open(const std::string& path, const std::string& experiment);

  const SimulationPlace& place() const { return place_; }
  // Makes of a world in which as much has happened the one that was written. The Error says what does not
  // fit; then the world is of no use any more.
  Status put_into(World& world, const std::vector<TrainingLearner*>& learners) const;

 private:
  SimulationFile(training::SafetensorsFile file, SimulationPlace place)
      : file_(std::move(file)), place_(place) {}
  Result<std::vector<std::byte>> read(const std::string& tensor) const;

  training::SafetensorsFile file_;
  SimulationPlace place_;
};

}  // namespace starling::lab
