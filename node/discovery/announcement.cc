#include "node/discovery/announcement.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "base/id_text.h"

namespace starling::node {
namespace {

constexpr std::string_view kTxtVersion = "1";
constexpr std::size_t kTagDigits = 32;

bool is_tag(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text == kOpenTag || (text.size() == kTagDigits && std::ranges::all_of(text, is_digit));
}

// The value of the first string "KEY=VALUE"; empty if there is none. Keys are case-insensitive (RFC 6763,
// section 6.4).
std::string_view value_of(std::string_view key, std::span<const std::string> txt) {
  const auto same = [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); };
  for (const std::string& string : txt) {
    const std::string_view text = string;
    const std::size_t equals = text.find('=');
    if (equals == key.size() && std::ranges::equal(key, text.substr(0, equals), same))
      return text.substr(equals + 1);
  }
  return {};
}

}  // namespace

std::vector<std::string> to_txt(const Announcement& announcement) {
  return {"v=" + std::string(kTxtVersion), "swarm=" + announcement.swarm, "id=" + to_string(announcement.id),
          "tag=" + announcement.tag};
}

std::optional<Announcement> parse_announcement(std::span<const std::string> txt) {
  const auto is_long = [](const std::string& string) { return string.size() > kTxtBytesMax; };
  if (txt.size() > kTxtStringsMax || std::ranges::any_of(txt, is_long)) return std::nullopt;
  const std::string_view swarm = value_of("swarm", txt), tag = value_of("tag", txt);
  const auto id = parse_peer_id(value_of("id", txt));
  if (value_of("v", txt) != kTxtVersion || !is_plain_name(swarm) || !id || !is_tag(tag)) return std::nullopt;
  return Announcement{std::string(swarm), *id, std::string(tag)};
}

bool is_dialable(const Address& address) {
  if (!address || address.port == 0) return false;
  std::array<unsigned char, 16> bytes{};
  if (::inet_pton(AF_INET, address.host.c_str(), bytes.data()) == 1) {
    constexpr unsigned char kLoopback = 127, kFirstMulticast = 224;  // reserved ones and broadcast follow
    return bytes[0] != 0 && bytes[0] != kLoopback && bytes[0] < kFirstMulticast;
  }
  if (::inet_pton(AF_INET6, address.host.c_str(), bytes.data()) != 1) return false;
  // Global and unique local ones (RFC 4291, 4193); the rest is loopback, mapped, link-local or multicast.
  return (bytes[0] & 0xe0) == 0x20 || (bytes[0] & 0xfe) == 0xfc;
}

}  // namespace starling::node
