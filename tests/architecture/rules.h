// The architecture as rules over source lines: the allowed includes between rooms (rooms.txt), the constructs
// forbidden in pure rooms, and the place of each third-party library. Each check returns one sentence per
// violation, "path:line: what", and an empty list for a correct source.
#pragma once

#include <string>
#include <vector>

#include "tests/architecture/rooms.h"
#include "tests/architecture/sources.h"

namespace starling::architecture {

// Checks that the table allows every include, and that every file is in a room of the table.
std::vector<std::string> check_includes(const Source& source);

// Checks that base, wire, topologies and gossip depend only on their arguments: no clock, thread, lock,
// socket, log, unseeded randomness, or container whose order differs between libraries. gossip also has no
// virtual calls and no shared ownership.
std::vector<std::string> check_purity(const Source& source);

// Checks that FlatBuffers, oneDNN, toml++, Asio, cpp-httplib, pugixml, OpenSSL and CLI11 are each used in one
// place. Tests and benchmarks may use all of them.
std::vector<std::string> check_libraries(const Source& source);

}  // namespace starling::architecture
