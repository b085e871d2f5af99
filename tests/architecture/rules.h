// The architecture as rules over source lines: the allowed includes between rooms (docs/ARCHITECTURE.md's
// table), the constructs forbidden in pure rooms, and the place of each third-party library. Each check
// returns one sentence per violation, "path:line: what", and an empty list for a correct source.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/architecture/sources.h"

namespace starling::architecture {

// For each room, the other rooms that it may include, and single headers of rooms that it may not include
// as a whole ("wire/messages.h").
const std::map<std::string, std::set<std::string>>& rooms();

// The same table from docs/ARCHITECTURE.md: the rows of the form "| `room` | what | may include |". In the
// last cell, "and below" adds the rooms that the named rooms may include, and "everything" names all rooms.
// Text after a semicolon is a remark.
std::map<std::string, std::set<std::string>> rooms_in(std::string_view document);

// The room of the longest row that matches: "gossip" for "gossip/peer.cc", "lab/world" for
// "lab/world/faults.h". The first folder if no row matches, and empty for a file in the root.
std::string room_of(std::string_view path);

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
