// The architecture as rules over source lines: which room may include which (docs/ARCHITECTURE.md's table),
// what the pure rooms must not contain, and where each third-party library may be used. Each check returns
// one sentence per violation, "path:line: what", and an empty list where the source is in order.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/architecture/sources.h"

namespace starling::architecture {

// Each room with all the rooms it may include, itself not named.
const std::map<std::string, std::set<std::string>>& rooms();

// The same table as docs/ARCHITECTURE.md shows it: the rows of the form "| `room` | what | may include |",
// "and below" resolved to all that the named rooms may include themselves.
std::map<std::string, std::set<std::string>> rooms_in(std::string_view document);

// "gossip" of "gossip/peer.cc"; empty for a file that lies in no folder.
std::string room_of(std::string_view path);

// Only arrows of the table; gossip sees nothing of wire but its messages; a file lies in a room of the table.
std::vector<std::string> check_includes(const Source& source);

// base, wire, topologies and gossip are functions of their arguments: no clock, thread, lock, socket, log,
// foreign chance, or container whose order differs between libraries. gossip has neither virtual calls nor
// shared ownership.
std::vector<std::string> check_purity(const Source& source);

// FlatBuffers, oneDNN, toml++, Asio, cpp-httplib, pugixml, OpenSSL and CLI11 each in its one place (tests and
// benchmarks may use them all).
std::vector<std::string> check_libraries(const Source& source);

}  // namespace starling::architecture
