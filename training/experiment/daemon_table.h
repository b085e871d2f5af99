// The [daemon] table of an experiment file: how one peer runs that is started with the file (where it
// listens, what it writes and where). It does not say what is trained. The command line decides which keys
// exist; here they are read.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace starling::training {

struct DaemonEntry {
  std::string key;                  // without the table's name
  std::vector<std::string> values;  // as flags would give them; a list has several
  std::string place;                // "north.toml, line 3"
};

// In the order of their names; empty where the file has no such table. The Error names the place.
Result<std::vector<DaemonEntry>> read_daemon_table(const std::string& path);

}  // namespace starling::training
