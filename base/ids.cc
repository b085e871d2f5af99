#include "base/ids.h"

#include <algorithm>

#include "base/text.h"

namespace starling {

bool is_host(std::string_view text) {
  return !text.empty() && text.size() <= kHostBytesMax && is_printable(text) &&
         text.find_first_of(" []") == std::string_view::npos;
}

bool is_member_name(std::string_view text) {
  return text.size() <= kNameBytesMax && is_printable(text) && text.find(' ') == std::string_view::npos;
}

bool is_plain_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= kNameBytesMax && text.front() != '.' &&
         std::ranges::all_of(text, fits);
}

bool is_local_host(std::string_view host) {
  const auto begins = [&](std::string_view start) { return host.substr(0, start.size()) == start; };
  const auto begins_with_any = [&](auto... starts) { return (begins(starts) || ...); };
  if (host.find(':') != std::string_view::npos) {
    return host == "::1" || begins_with_any("fe8", "fe9", "fea", "feb", "fc", "fd");
  }
  if (host.empty() || host.find_first_not_of("0123456789.") != std::string_view::npos)
    return host == "localhost";
  if (begins_with_any("127.", "10.", "192.168.", "169.254.")) return true;
  // 172.16.0.0/12 and 100.64.0.0/10.
  const std::string_view second = host.substr(std::min(host.size(), std::size_t{4}));
  const auto number = parse_number<std::uint16_t>(second.substr(0, second.find('.')));
  if (!number) return false;
  return (begins("172.") && *number >= 16 && *number <= 31) ||
         (begins("100.") && *number >= 64 && *number <= 127);
}

std::string to_string(PeerId id) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (int i = 0; i < 16; ++i) text[i] = kDigits[(id.value >> (60 - 4 * i)) & 15];
  return text;
}

Result<Address> Address::parse(std::string_view text) {
  const auto bad = [&](std::string_view what) {
    return Error{"address '" + std::string(text) + "': " + std::string(what) +
                 "; expected HOST:PORT, for example 127.0.0.1:7100 or [::1]:7100"};
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("no port");
  std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad("an IPv6 host needs brackets");
  }
  if (host.empty()) return bad("no host");
  if (host.size() > kHostBytesMax)
    return bad("the host is longer than " + std::to_string(kHostBytesMax) + " bytes");
  if (!is_host(host)) return bad("the host contains an invalid character");
  const auto port = parse_number<std::uint16_t>(text.substr(colon + 1));
  if (!port) return bad("the port is not a number from 0 to 65535");
  return Address{std::string(host), *port};
}

std::string to_string(const Address& address) {
  if (!address) return "no address";
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace starling
