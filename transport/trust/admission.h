// Which inbound connections may do their handshake: there is a limit for all and a limit for each source
// address. At a limit the oldest connection that has not sent a byte is closed; if all have sent something,
// the new one is closed. Some places are reserved for the addresses of members. The link table uses it, on
// its executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "transport/links/link.h"

namespace starling::transport {

// The part of an address that one remote cannot easily change: an IPv4 address, the first 64 bits of an IPv6
// address ("2001:db8:0:7::/64"), or the text itself if it is neither.
std::string source_of(const std::string& host);

struct AdmissionLimits {
  std::size_t total = 256;
  std::size_t per_source = 16;
  // Peers of one machine share a loopback address. With 16 places, 64 peers with a key that started at once
  // all joined, but some connections were refused and members suspected (on two processors).
  std::size_t per_loopback_source = 128;
  std::size_t reserved = 16;  // part of the total: only for sources that remember() has named
};

class Admission {
 public:
  static constexpr std::size_t kSourcesMax = 1024;  // remembered

  // REQUIRES: limits.reserved < limits.total.
  explicit Admission(AdmissionLimits limits);

  struct Closed {
    LinkPtr link;
    std::string sentence;  // which limit was reached
  };
  // Gives the connection a place. Returns the connection that was closed: another one, or this one.
  std::optional<Closed> enter(const LinkPtr& link);
  // Its handshake has ended. False: the connection had been closed to make room.
  bool leave(const LinkPtr& link);
  // A member has this address. The source remembered longest ago is forgotten first.
  void remember(const Address& member);

  std::size_t size() const { return pending_.size(); }

 private:
  struct Pending {
    LinkPtr link;
    std::string source;
  };
  std::size_t limit_of(const std::string& source) const;

  AdmissionLimits limits_;
  std::list<Pending> pending_;                  // oldest first
  std::map<std::string, std::uint64_t> known_;  // sources of members, and when each was remembered last
  std::uint64_t remembered_ = 0;
};

}  // namespace starling::transport
