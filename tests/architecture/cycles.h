// Include cycles between units. A unit is a header with its source: X.h and X.cc. Units in a cycle can only
// be read, tested and moved together, so there should be none.
#pragma once

#include <string>
#include <vector>

#include "tests/architecture/sources.h"

namespace starling::architecture {

// The units that include each other, directly or through others: one sorted list per cycle, by name
// ("gossip/peer").
std::vector<std::vector<std::string>> include_cycles(const std::vector<Source>& sources);

}  // namespace starling::architecture
