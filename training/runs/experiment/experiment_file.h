// The experiment file: TOML to Experiment and back. Its sections are the first parts of the settings' keys;
// [[fault]] and [[peer]] are lists of tables (docs/EXPERIMENTS.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/settings/toml_text.h"

namespace starling::training {

// Reads a file over `experiment`. Unknown keys and bad values name the file, the line and the key. If the
// file has faults, or [[peer]]s, these replace all earlier ones. On an Error `experiment` is unchanged. A
// [sweep] (sweep.h) is rejected or ignored, and so is a [daemon].
enum class Sweeps : std::uint8_t { refused, accepted };
enum class DaemonTable : std::uint8_t { refused, passed_over };
Status read_file(Experiment& experiment, const std::string& path, Sweeps sweeps = Sweeps::refused,
                 DaemonTable daemon = DaemonTable::refused);

// Sets one key of a fault: peer, a kind, from, to, other, every, length, back_after, or one of link's or
// churn's, such as link.latency. The Error does not repeat the key.
Status set_fault(Fault& fault, const std::string& key, const std::string& value);

// The whole experiment as a file that reads back to the same value. REQUIRES: check() (check.h) succeeds.
std::string to_toml(const Experiment& experiment);
// The same, and a table [contents] with hashes of other files by their names; and the text without it. A run
// of such a file compares them with the files.
std::string to_toml(const Experiment& experiment, const std::map<std::string, std::string>& contents);
std::string without_contents(const std::string& text);

// Every value in such a file, without [contents], by its dotted key, as a flag would give it: "gossip.rule",
// "fault.1.slow". Lists have commas; tables and lists of tables are as TOML writes them, on one line. Keys
// need not be known. The Error names the place.
Result<std::map<std::string, std::string>> values_in(const std::string& path);

// The [daemon] table: how one peer that is started with the file runs: where it listens, what it writes and
// where. The command line decides which keys exist.
struct DaemonEntry {
  std::string key;                  // without the table's name
  std::vector<std::string> values;  // as flags would give them; a list has several
  std::string place;                // "north.toml, line 3"
};

// In the order of their names; empty if the file has no such table. The Error names the place.
Result<std::vector<DaemonEntry>> read_daemon_table(const std::string& path);

}  // namespace starling::training
