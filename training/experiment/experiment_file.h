// The experiment file: TOML to Experiment and back. Its sections are those of the settings' keys; [[fault]]
// and [[peer]] are lists of tables (docs/EXPERIMENTS.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "training/experiment/experiment.h"

namespace starling::training {

inline constexpr std::size_t kLargestExperimentFile = 1 << 20;  // bytes; an experiment is a page

// Reads a file over `experiment`. Unknown keys and bad values name the file, the line and the key. If the
// file has faults, or [[peer]]s, these replace all earlier ones. On an Error `experiment` is unchanged. A
// [sweep] (sweep.h) is rejected or ignored, and so is a [daemon] (daemon_table.h).
enum class Sweeps : std::uint8_t { refused, accepted };
enum class DaemonTable : std::uint8_t { refused, passed_over };
Status read_file(Experiment& experiment, const std::string& path, Sweeps sweeps = Sweeps::refused,
                 DaemonTable daemon = DaemonTable::refused);

// Sets one key of a fault: peer, a kind, from, to, other, every, length, back_after, or one of link's or
// churn's, such as link.latency. The Error does not repeat the key.
Status set_fault(Fault& fault, const std::string& key, const std::string& value);

// The whole experiment as a file that reads back to the same value. REQUIRES: check() (check.h) succeeds.
std::string to_toml(const Experiment& experiment);

}  // namespace starling::training
