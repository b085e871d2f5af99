// A checkpoint of a simulation. It contains values only: what happened in virtual time follows from the
// experiment and is repeated, without computing gradients, up to the same event; then the values of the file
// replace the world's. The resumed run equals one that was never stopped, to the last digit.
//
// This is not possible if decisions depended on values (a replica that diverged, a poisoned chunk that was
// rejected): then the trace differs, and the run starts over, with the same result.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/simulate/learner_state.h"
#include "lab/world/world.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/peer_state.h"
#include "training/runs/records/safetensors.h"

namespace starling::lab {

inline constexpr const char* kSimulationFile = "simulation.safetensors";

// The moment of the checkpoint.
struct SimulationPlace {
  std::uint64_t happenings = 0;  // in the world
  std::uint64_t trace = 0;       // hash of the happenings
  std::uint64_t samples = 0;
  std::uint64_t metrics_bytes = 0;  // of metrics.jsonl
};

class SimulationFile {
 public:
  using Facts = training::Facts;

  // Writes atomically. `learners`: the latest of each machine that trains, else null. `experiment`: its text.
  // `contents`: of what it names (training::MadeFrom).
  static Status write(const std::string& path, const std::string& experiment, const Facts& contents,
                      const SimulationPlace& place, World& world,
                      const std::vector<RestorableLearner*>& learners) {
    std::vector<training::TensorToWrite> tensors;
    std::deque<StateWriter> states;
    const auto add_bytes = [&](const std::string& name, const StateWriter& state) {
      tensors.push_back({name, "U8", {static_cast<std::int64_t>(state.bytes().size())}, state.bytes()});
    };
    for (std::uint32_t i = 0; i < world.machines(); ++i) {
      const auto machine = world.machine(i);
      const std::span<const float> replica = machine.parameters();
      tensors.push_back({replica_name(machine),
                         "F32",
                         {static_cast<std::int64_t>(replica.size())},
                         std::as_bytes(replica)});
      if (i >= learners.size() || learners[i] == nullptr || !runs(machine)) continue;
      learners[i]->save(states.emplace_back(), machine.arena);
      add_bytes(learner_name(machine), states.back());
    }
    StateWriter& values = states.emplace_back();
    for (const MutableBytes bytes : world.values()) values.values(std::span<const std::byte>(bytes));
    add_bytes("values", values);
    Facts facts{{kKind, "1"}, {kExperiment, experiment}};
    for (const auto& [name, number] : kNumbers) facts[name] = std::to_string(place.*number);
    for (const auto& [name, hash] : contents) facts[kContent + name] = hash;
    return training::write_tensors(path, tensors, std::move(facts), training::Durability::checked);
  }

  // An Error if the file is damaged, or not a checkpoint of this experiment.
  static Result<SimulationFile> open(const std::string& path, const std::string& experiment) {
    auto file = training::SafetensorsFile::open(path);
    if (!file) return file.error();
    const Facts& facts = file->metadata();
    if (!facts.contains(kKind)) return Error{path + " is not a checkpoint of a simulation"};
    if (const auto its = facts.find(kExperiment); its == facts.end() || its->second != experiment)
      return Error{path + " is a checkpoint of another experiment: resume with the same file and flags"};
    SimulationPlace place;
    for (const auto& [name, number] : kNumbers) {
      const auto value = training::number_in(facts, name, path);
      if (!value) return value.error();
      place.*number = *value;
    }
    if (Status whole = file->check_data(); !whole) return whole.error();
    return SimulationFile(std::move(*file), place);
  }

  const SimulationPlace& place() const { return place_; }
  Facts contents() const {
    Facts contents;
    for (const auto& [name, hash] : file_.metadata())
      if (name.starts_with(kContent)) contents[name.substr(kContent.size())] = hash;
    return contents;
  }

  // Puts the values into a world at the same happening. After an Error, which names what differs, the world
  // is unusable.
  Status put_into(World& world, const std::vector<RestorableLearner*>& learners) const {
    const auto unfit = [this](const std::string& what) {
      return Error{file_.path() + ": " + what + " differs from this run"};
    };
    if (world.trace_hash() != place_.trace || world.samples() != place_.samples) return unfit("the trace");
    const auto values = read("values");
    if (!values) return values.error();
    StateReader in(*values);
    for (const MutableBytes bytes : world.values()) in.into(bytes);
    if (!in.done()) return unfit("the state of the network and the rules");
    for (std::uint32_t i = 0; i < world.machines(); ++i) {
      const auto machine = world.machine(i);
      const auto replica = read(replica_name(machine));
      if (!replica) return replica.error();
      if (replica->size() != sizeof(float) * machine.arena.size()) return unfit(replica_name(machine));
      world.put_replica(i, {reinterpret_cast<const float*>(replica->data()), machine.arena.size()});
      if (i >= learners.size() || learners[i] == nullptr || !runs(machine)) continue;
      const auto learner = read(learner_name(machine));
      if (!learner) return learner.error();
      StateReader state(*learner);
      if (Status loaded = learners[i]->load(state, machine.arena); !loaded)
        return unfit(learner_name(machine));
      if (!state.done()) return unfit(learner_name(machine));
    }
    return Done{};
  }

 private:
  inline static const std::string kContent = "content.";
  static constexpr const char* kKind = training::kSimulationFact;
  static constexpr const char* kExperiment = "experiment";

  using Number = std::pair<const char*, std::uint64_t SimulationPlace::*>;
  static constexpr Number kNumbers[] = {{"happenings", &SimulationPlace::happenings},
                                        {"trace", &SimulationPlace::trace},
                                        {"samples", &SimulationPlace::samples},
                                        {"metrics_bytes", &SimulationPlace::metrics_bytes}};

  // A machine that does not run has no learner to save.
  static bool runs(const World::MachineView& machine) { return machine.state == MachineState::running; }

  static std::string replica_name(const World::MachineView& machine) { return machine.name + ".replica"; }
  static std::string learner_name(const World::MachineView& machine) { return machine.name + ".learner"; }

  SimulationFile(training::SafetensorsFile file, SimulationPlace place)
      : file_(std::move(file)), place_(place) {}

  Result<std::vector<std::byte>> read(const std::string& tensor) const {
    const auto* const entry = file_.find(tensor);
    if (entry == nullptr) return Error{file_.path() + " has no '" + tensor + "'"};
    std::vector<std::byte> bytes(entry->end - entry->begin);
    if (Status read = file_.read(*entry, bytes); !read) return read.error();
    return bytes;
  }

  training::SafetensorsFile file_;
  SimulationPlace place_;
};

}  // namespace starling::lab
