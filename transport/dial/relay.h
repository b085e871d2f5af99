// Passes bytes on between two peers that cannot dial each other: the member in the middle of a circuit. It
// calls the target of a request, waits until that connects, and then passes relayed frames on, at one
// bandwidth for all circuits. What is inside, it cannot read if the swarm has a key, and in no case forge
// without being noticed by the ends. Part of the link table, on its executor.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include <asio/awaitable.hpp>

#include "base/ids.h"
#include "base/time.h"
#include "transport/dial/connector.h"
#include "transport/dial/relay_pace.h"
#include "wire/messages.h"

namespace starling::transport {

struct RelayOptions {
  double bits_per_second = 0;  // of all circuits, both directions added; 0: requests are refused
  std::size_t circuits_max = 64;
  std::size_t per_requester_max = 4;                // that are open, wait or are being requested
  std::size_t waiting_max = 32;                     // requests that are read or wait for their target
  Duration stall_limit = std::chrono::seconds(30);  // a circuit that moves nothing for so long is closed
  Duration burst = std::chrono::milliseconds(50);   // bandwidth that an idle relay saves up
};

class Relay : public std::enable_shared_from_this<Relay> {
 public:
  struct Events {
    std::function<bool(PeerId)> may_relay;                   // whether this is a member
    std::function<bool(PeerId)> has_link;                    // whether there is a control link with it
    std::function<void(PeerId, const wire::Message&)> send;  // on that link
  };
  Relay(std::shared_ptr<Connector> connector, RelayOptions options, Events events);

  // An inbound connection of purpose relay after its handshake: a requester's, or a called target's (its
  // Hello has a number). A connection that ends before its request has no effect.
  void take(LinkPtr link, wire::Hello remote);

  void close();  // ends all circuits

 private:
  struct Circuit;
  using CircuitPtr = std::shared_ptr<Circuit>;
  static asio::awaitable<void> serve(std::shared_ptr<Relay> self, CircuitPtr circuit);
  static asio::awaitable<std::optional<wire::Refusal>> arrange(std::shared_ptr<Relay> self,
                                                               CircuitPtr circuit);
  static asio::awaitable<void> wait_for_target(std::shared_ptr<Relay> self, CircuitPtr circuit);
  static asio::awaitable<void> pass(std::shared_ptr<Relay> self, CircuitPtr circuit, LinkPtr from,
                                    LinkPtr to);
  std::optional<wire::Refusal> objection_to(PeerId requester) const;
  std::optional<wire::Refusal> objection_to(const Circuit& circuit) const;
  std::optional<wire::Refusal> lack_of_room(PeerId requester) const;
  void refuse_request(LinkPtr link, const wire::Refusal& refusal);
  void take_target(LinkPtr link, const wire::Hello& remote);
  void touch(Circuit& circuit, Duration wait) const;
  void end(const CircuitPtr& circuit);

  std::shared_ptr<Connector> connector_;
  RelayOptions options_;
  Events events_;
  RelayCounters& counters_;
  RelayPace pace_;
  std::set<CircuitPtr> circuits_;
};

}  // namespace starling::transport
