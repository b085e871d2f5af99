// The peers that a user allows to connect, from a text file with one peer on each line:
//
//   # comment
//   0123456789abcdef
//   0123456789abcdef observer  the laptop of Ann
//
// An id has 16 hexadecimal digits. The role `member` or `observer` follows, `member` if there is none; text
// after a role or a '#' is a comment. An observer may join and copy the parameters, but the peer exchanges
// with it and copies from it never.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace starling::transport {

class AllowList {
 public:
  static constexpr std::size_t kPeersMax = 4096;
  static constexpr std::size_t kFileBytesMax = std::size_t{1} << 20;

  enum class Role : std::uint8_t { member, observer };

  // Error: one sentence with the path and, for an invalid line, its number.
  static Result<AllowList> read(const std::string& path);

  bool allows(PeerId peer) const { return roles_.contains(peer); }
  // nullopt: the peer is not allowed.
  std::optional<Role> role(PeerId peer) const {
    const auto found = roles_.find(peer);
    return found == roles_.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<PeerId> observers() const {  // sorted
    std::vector<PeerId> ids;
    for (const auto& [id, role] : roles_)
      if (role == Role::observer) ids.push_back(id);
    return ids;
  }
  std::size_t size() const { return roles_.size(); }

 private:
  AllowList() = default;
  std::map<PeerId, Role> roles_;
};

}  // namespace starling::transport
