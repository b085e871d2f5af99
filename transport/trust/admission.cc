#include "transport/trust/admission.h"

#include <algorithm>
#include <utility>

#include <asio/ip/address.hpp>
#include <asio/ip/network_v6.hpp>

#include "base/check.h"

namespace starling::transport {
namespace {

constexpr unsigned short kPrefixBits = 64;  // of an IPv6 address: the smallest network that is assigned

bool is_loopback_source(const std::string& source) {
  asio::error_code error;
  const asio::ip::address ip = asio::ip::make_address(source, error);
  return !error && ip.is_loopback();
}

}  // namespace

std::string source_of(const std::string& host) {
  asio::error_code error;
  const asio::ip::address ip = asio::ip::make_address(host, error);
  if (error || ip.is_v4() || ip.is_loopback()) return host;
  asio::ip::address_v6 v6 = ip.to_v6();
  v6.scope_id(0);
  return asio::ip::make_network_v6(v6, kPrefixBits).canonical().to_string();
}

Admission::Admission(AdmissionLimits limits) : limits_(limits) {
  STARLING_CHECK(limits_.reserved < limits_.total);
}

std::size_t Admission::limit_of(const std::string& source) const {
  return is_loopback_source(source) ? limits_.per_loopback_source : limits_.per_source;
}

std::optional<Admission::Closed> Admission::enter(const LinkPtr& link) {
  std::string source = source_of(link->remote().host);
  const bool known = known_.contains(source);
  const auto from_source = [&](const Pending& other) { return other.source == source; };
  const auto unknown = [&](const Pending& other) { return !known_.contains(other.source); };
  const auto any = [](const Pending&) { return true; };

  std::string sentence;
  // True if this limit is reached. Then the connection that is closed is one that counts for the limit.
  auto closed = pending_.end();
  const auto reached = [&](const auto& counts, std::size_t limit, const std::string& whose) {
    if (static_cast<std::size_t>(std::ranges::count_if(pending_, counts)) < limit) return false;
    closed = std::ranges::find_if(
        pending_, [&](const Pending& other) { return counts(other) && other.link->is_silent(); });
    sentence = std::to_string(limit) + " handshakes " + whose + " are under way, and no more are allowed";
    return true;
  };
  const bool full =
      reached(from_source, limit_of(source), "from " + source) ||
      (!known && reached(unknown, limits_.total - limits_.reserved, "from unknown addresses")) ||
      reached(any, limits_.total, "in all");

  if (full && closed == pending_.end()) {
    link->close();
    return Closed{link, to_string(link->remote()) + " was disconnected: " + sentence};
  }
  std::optional<Closed> other;
  if (full) {
    other = Closed{closed->link, to_string(closed->link->remote()) +
                                     " was disconnected, as it had sent nothing: " + sentence};
    pending_.erase(closed);
    other->link->close();
  }
  pending_.push_back({link, std::move(source)});
  return other;
}

bool Admission::leave(const LinkPtr& link) {
  return std::erase_if(pending_, [&](const Pending& one) { return one.link == link; }) > 0;
}

void Admission::remember(const Address& member) {
  known_[source_of(member.host)] = ++remembered_;
  if (known_.size() <= kSourcesMax) return;
  known_.erase(std::ranges::min_element(known_, {}, [](const auto& entry) { return entry.second; }));
}

}  // namespace starling::transport
