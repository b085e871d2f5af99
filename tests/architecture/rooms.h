// The wings and rooms of the program, and what each room may include: tests/architecture/rooms.txt, which
// explains its own form.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace starling::architecture {

// For each room, the other rooms that it may include, and single headers of rooms that it may not include
// as a whole ("wire/messages.h").
using Table = std::map<std::string, std::set<std::string>>;

struct Wing {
  int floor;
  std::string name;
  std::string folder;  // of its README.md
  std::vector<std::string> rooms{};
};

struct Rooms {
  std::vector<Wing> wings;
  Table table;
};

// What the text of rooms.txt says. Its rows are in order: a row may refer to earlier ones ("and below").
Rooms read_rooms(std::string_view text);

// Of the project, with `tests` and `bench`, which may include everything.
const Table& rooms();
const std::vector<Wing>& wings();

// The room of the longest row that matches: "gossip" for "gossip/peer.cc", "lab/world" for
// "lab/world/faults.h". The first folder if no row matches, and empty for a file in the root.
std::string room_of(std::string_view path);

}  // namespace starling::architecture
