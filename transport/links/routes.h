// What a link table knows of its connections and of the ways to them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <asio/any_io_executor.hpp>

#include "base/ids.h"
#include "transport/coroutines.h"
#include "transport/links/link.h"
#include "wire/codec.h"
#include "wire/messages.h"

namespace starling::transport {

template <class... Types>
inline bool is_any(const wire::Message& message) {
  return (std::holds_alternative<Types>(message) || ...);
}

inline bool travels_on_control(const wire::Message& message) {
  return is_any<wire::Refusal, wire::Ping, wire::PingRequest, wire::Ack, wire::Gossip, wire::Digest,
                wire::View, wire::Join, wire::Welcome, wire::Leave, wire::Rewire, wire::Call,
                wire::ReachRequest, wire::ReachReport>(message);
}

// Why a message ends a control link; nullopt if it does not.
inline std::optional<LinkError> fault_of(const wire::Message& message) {
  if (!travels_on_control(message)) {
    return LinkError{{"a " + std::string(wire::name(message)) + " on a control link"},
                     LinkErrorKind::malformed};
  }
  // The accepter's answer to a Proof that is false.
  const auto* refusal = std::get_if<wire::Refusal>(&message);
  if (refusal != nullptr && refusal->reason == wire::RefusalReason::false_identity)
    return LinkError{{refusal->text}, LinkErrorKind::false_identity};
  return std::nullopt;
}

// Where the remote can be dialed, empty if it does not listen: at its connection's host if it does so on all
// interfaces.
inline Address listening_address(const wire::Hello& remote, const Link& link) {
  const bool anywhere = remote.address.host == "0.0.0.0" || remote.address.host == "::";
  return {anywhere ? link.remote().host : remote.address.host, remote.address.port};
}

// A control link after its handshake.
struct ControlLink {
  ControlLink(const asio::any_io_executor& executor, LinkPtr l, wire::Hello hello, bool by_us)
      : link(std::move(l)),
        remote(std::move(hello)),
        listens_at(listening_address(remote, *link)),
        dialed(by_us),
        changed(executor) {}

  // Whether this end cannot connect again. Such a link is kept longer.
  bool is_irreplaceable() const { return !dialed && !listens_at; }

  LinkPtr link;
  wire::Hello remote;
  Address listens_at;
  bool dialed;  // by this end
  // Where this end has dialed the remote. The routes of these addresses and of listens_at may lead here.
  std::set<Address> dialed_at;
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point used = since, received = since;
  bool writing = false;
  bool retired = false;
  bool lost = false;
  Signal changed;  // a write has ended
};
using ConnectionPtr = std::shared_ptr<ControlLink>;

struct Waiting {
  std::vector<std::byte> frame;
  bool tried = false;  // once, on a link that broke
};
enum class RouteStage : std::uint8_t { idle, waiting, calling, dialing, writing };
struct Route {
  Endpoint to;  // with the latest address
  std::deque<Waiting> queue;
  std::size_t bytes = 0;  // in the queue
  RouteStage stage = RouteStage::idle;
  std::chrono::steady_clock::time_point deadline{};  // of a call
  ConnectionPtr connection;                          // of a receiver without an id; see connection_of()
};
using RoutePtr = std::shared_ptr<Route>;

// Routes of receivers with an id are kept by this id, the others by their address.
inline Endpoint key_of(const Endpoint& to) { return to.id ? Endpoint{to.id, {}} : Endpoint{{}, to.address}; }

// The keys of the routes that may lead to the connection.
inline std::vector<Endpoint> receivers(const ControlLink& connection) {
  std::vector<Endpoint> keys = {{connection.remote.id, {}}};
  if (connection.listens_at) keys.push_back({{}, connection.listens_at});
  for (const Address& address : connection.dialed_at) keys.push_back({{}, address});
  return keys;
}

// Whether a message can have this receiver: a peer without an id is only dialed.
inline bool is_receiver(const Endpoint& to) { return to.id || (to.address && to.way == Way::dial); }

inline LinkError other_peer(PeerId expected, const Address& at, const wire::Hello& remote) {
  return {{to_string(at) + " is now " + remote.name + " (" + to_string(remote.id) + "), not " +
           to_string(expected)},
          LinkErrorKind::other_peer};
}

}  // namespace starling::transport
