#include "tests/architecture/rooms.h"

#include <regex>
#include <sstream>
#include <utility>

#include "tests/architecture/project.h"

namespace starling::architecture {
namespace {

using Names = std::set<std::string>;

// The rooms and headers that the cell of a row allows.
Names allowed_by(const std::string& cell, const Names& known, const Table& earlier) {
  static const std::regex kWord(R"re([a-z_]+(/[a-z_]+)*(\.h)?)re");
  Names allowed;
  bool below = false;
  for (auto word = std::sregex_iterator(cell.begin(), cell.end(), kWord); word != std::sregex_iterator();
       ++word) {
    if (word->str() == "below") below = true;
    if (word->str() == "everything") allowed = known;
    if (known.contains(word->str()) || word->str().ends_with(".h")) allowed.insert(word->str());
  }
  if (!below) return allowed;
  for (const auto& room : Names(allowed)) {
    if (const auto row = earlier.find(room); row != earlier.end())
      allowed.insert(row->second.begin(), row->second.end());
  }
  return allowed;
}

const Rooms& project_rooms() {
  static const Rooms kRooms = read_rooms(read_text(kRoot + "/tests/architecture/rooms.txt"));
  return kRooms;
}

}  // namespace

Rooms read_rooms(std::string_view text) {
  static const std::regex kWing(R"re(wing ([1-9]) ([a-z]+) ([a-z/]+))re"), kRow(R"re(([a-z_/]+):(.*))re");
  Rooms rooms;
  std::vector<std::pair<std::string, std::string>> rows;
  Names known;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (line.starts_with('#')) continue;
    if (std::regex_match(line, found, kWing)) {
      rooms.wings.push_back({std::stoi(found[1]), found[2], found[3]});
    } else if (std::regex_match(line, found, kRow)) {
      rows.emplace_back(found[1], found[2]);
      known.insert(found[1]);
      if (!rooms.wings.empty()) rooms.wings.back().rooms.push_back(found[1]);
    }
  }
  for (const auto& [room, cell] : rows) {
    Names allowed = allowed_by(cell, known, rooms.table);
    allowed.erase(room);
    rooms.table[room] = std::move(allowed);
  }
  return rooms;
}

const std::vector<Wing>& wings() { return project_rooms().wings; }

const Table& rooms() {
  static const Table kTable = [] {
    Table table = project_rooms().table;
    Names everything;
    for (const auto& [room, allowed] : table) everything.insert(room);
    table["clients"] = {};  // they follow docs/TRAINERS.md and share no code with the peer
    table["tests"] = table["bench"] = everything;
    return table;
  }();
  return kTable;
}

std::string room_of(std::string_view path) {
  const auto file = path.rfind('/');
  if (file == std::string_view::npos) return {};
  std::string folder(path.substr(0, file));
  while (!rooms().contains(folder)) {
    const auto slash = folder.rfind('/');
    if (slash == std::string::npos) break;
    folder.resize(slash);
  }
  return folder;
}

}  // namespace starling::architecture
