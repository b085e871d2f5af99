// The [daemon] table of an experiment's file: how one peer runs that is started with it (where it listens,
// what it writes and where), and nothing of what is trained. What its keys are is the daemon's to say; here
// they are read.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace starling::training {

struct DaemonEntry {
  std::string key;                  // without the table's name
  std::vector<std::string> values;  // as flags would give them; of a list all of them
  std::string place;                // "north.toml, line 3"
};

// In the order of their names; none where it has no such table. Error: one sentence that names the place.
Result<std::vector<DaemonEntry>> read_daemon_table(const std::string& path);

}  // namespace starling::training
