// The architecture as rules over source lines: which room may include which (docs/ARCHITECTURE.md's table),
// what the pure rooms must not contain, and where each third-party library may be used. Each check returns
// one sentence per violation, "path:line: what", and an empty list if the source is in order.
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

// The same table as docs/ARCHITECTURE.md shows it: the rows of the form "| `room` | what | may include |". In
// the last cell, "and below" adds what the named rooms may include; "everything" names all rooms; the text
// after a semicolon is a remark.
std::map<std::string, std::set<std::string>> rooms_in(std::string_view document);

// The room of the longest row that matches: "gossip" of "gossip/peer.cc", "lab/world" of
// "lab/world/faults.h"; the first folder if no row matches, and empty for a file in the root.
std::string room_of(std::string_view path);

// Only arrows of the table, and every file in a room of the table.
std::vector<std::string> check_includes(const Source& source);

// base, wire, topologies and gossip are functions of their arguments: no clock, thread, lock, socket, log,
// unseeded chance, or container whose order differs between libraries. gossip also has no virtual calls and
// no shared ownership.
std::vector<std::string> check_purity(const Source& source);

// FlatBuffers, oneDNN, toml++, Asio, cpp-httplib, pugixml, OpenSSL and CLI11 each in one place (tests and
// benchmarks may use them all).
std::vector<std::string> check_libraries(const Source& source);

}  // namespace starling::architecture
