#include "transport/trust/allow_list.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "base/id_text.h"

namespace starling::transport {
namespace {

constexpr std::string_view kBlanks = " \t\r";

// Removes the first word and the blanks around it.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

std::string quoted(std::string_view word) { return "'" + std::string(word.substr(0, 80)) + "'"; }

// nullopt: the line names no peer. The Error continues a sentence that names the line.
Result<std::optional<std::pair<PeerId, AllowList::Role>>> parse_line(std::string_view line) {
  using Role = AllowList::Role;
  using Entry = std::optional<std::pair<PeerId, Role>>;
  const std::string_view first = take_word(line);
  if (first.empty() || first.starts_with('#')) return Entry{};
  const auto id = parse_peer_id(first);
  if (!id) return Error{quoted(first) + " is not the id of a peer, which has 16 hexadecimal digits"};
  const std::string_view second = take_word(line);
  if (second == "observer") return Entry{{*id, Role::observer}};
  if (second.empty() || second.starts_with('#') || second == "member") return Entry{{*id, Role::member}};
  return Error{quoted(second) + " is not a role; expected member, observer, or a comment that begins with #"};
}

Result<std::string> read_text(const std::string& path) {
  const auto refuse = [&] {
    return Error{"the list of peers " + path + " cannot be read: " + std::strerror(errno)};
  };
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::fopen(path.c_str(), "rbe"),
                                                                &std::fclose);
  if (!file) return refuse();
  std::string text(AllowList::kFileBytesMax + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return refuse();
  if (text.size() > AllowList::kFileBytesMax)
    return Error{"the list of peers " + path + " has more than 1 MiB, the most there may be"};
  return text;
}

}  // namespace

Result<AllowList> AllowList::read(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return text.error();
  AllowList list;
  std::string_view rest = *text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto refuse = [&](const std::string& why) {
      return Error{path + ":" + std::to_string(number) + ": " + why};
    };
    const auto entry = parse_line(line);
    if (!entry) return refuse(entry.error().message);
    if (!*entry) continue;
    if (!list.roles_.insert(**entry).second) return refuse(to_string((*entry)->first) + " is listed twice");
    if (list.size() > kPeersMax)
      return refuse("more than " + std::to_string(kPeersMax) + " peers are listed, the most there may be");
  }
  if (list.roles_.empty()) return Error{"the list of peers " + path + " names no peer"};
  return list;
}

}  // namespace starling::transport
