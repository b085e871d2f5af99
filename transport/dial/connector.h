// Makes connections: dials and accepts them, does their handshakes, and limits and counts them. What happens
// on a connection afterwards is the caller's business. The link table and its parts use it, on their
// executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/links/link.h"
#include "transport/links/link_counters.h"
#include "transport/transport.h"
#include "transport/trust/admission.h"
#include "transport/trust/handshake.h"
#include "wire/messages.h"

namespace starling::transport {

// A connection after its handshake.
struct BulkLink {
  LinkPtr link;
  wire::Hello remote;
};

struct ConnectorOptions {
  Duration dial_limit = std::chrono::seconds(5);
  Duration handshake_limit = std::chrono::seconds(5);
  AdmissionLimits inbound{};
  // Optional: an inbound connection that was refused. `source` is source_of() its address.
  std::function<void(LinkErrorKind kind, std::string source, std::string sentence)> on_refused{};
};

// Divides dial_limit among the addresses of one peer, so that one that does not answer leaves time for the
// next.
class DialTime {
 public:
  explicit DialTime(Duration limit) : until_(std::chrono::steady_clock::now() + limit) {}
  // For the next of `left` addresses. REQUIRES: left > 0.
  Duration share(std::size_t left) const;

 private:
  std::chrono::steady_clock::time_point until_;
};

// The address and those in `also`, in this order; none if the address is empty.
std::vector<Address> addresses_of(const Endpoint& to);
LinkError no_address(const Endpoint& to);

class Connector : public std::enable_shared_from_this<Connector> {
 public:
  using Admitted = std::function<void(LinkPtr link, wire::Hello remote)>;

  // REQUIRES: `transport` and the identity outlive the executor's last work for it.
  Connector(asio::any_io_executor executor, Transport& transport, Self self, ConnectorOptions options,
            std::shared_ptr<LinkCounters> counters);

  void set_hello(wire::Hello hello);  // for handshakes from now on; its id and key stay the identity's
  const wire::Hello& hello() const { return self_.hello; }
  PeerId id() const { return self_.hello.id; }
  const asio::any_io_executor& executor() const { return executor_; }
  Transport& transport() { return transport_; }
  LinkCounters& counters() { return *counters_; }
  const ConnectorOptions& options() const { return options_; }
  // How long a peer that is called may take to connect: it needs to dial and a handshake.
  Duration answer_limit() const { return options_.dial_limit + options_.handshake_limit; }
  bool is_closed() const { return closed_; }
  std::size_t handshakes() const { return admission_.size(); }  // inbound

  // Begins to accept; `then` gets every connection after its handshake. Returns the actual address.
  Result<Address> listen(const Address& at, Admitted then);
  void stop_listening();
  // Gives an inbound connection a place (Admission) and does its handshake.
  void accept(LinkPtr link, Admitted then);
  // Sends the reason on a connection after its handshake, and ends it.
  void dismiss(LinkPtr link, wire::Refusal refusal);
  // The same, and counts and reports it.
  void reject(LinkPtr link, wire::RefusalReason reason, LinkErrorKind kind, std::string sentence);

  // Static coroutines keep the Connector alive by a parameter. Errors are counted.
  // Dials one address for at most `at_most`, and does the handshake as dialer.
  static asio::awaitable<LinkResult<BulkLink>> connect(std::shared_ptr<Connector> self, Address to,
                                                       wire::Purpose purpose, std::uint64_t call,
                                                       Duration at_most);
  // Dials the peer at each of its addresses until one answers with the right id. Errors: the last address's,
  // other_peer, unreachable if there is no address.
  static asio::awaitable<LinkResult<BulkLink>> connect_to(std::shared_ptr<Connector> self, Endpoint to,
                                                          wire::Purpose purpose, std::uint64_t call);
  // Makes a bulk connection through the relay to.via, which listens at to.address: asks it for a circuit, and
  // does the handshake with the peer to.id inside it. Errors also: refused, with the relay's sentence.
  static asio::awaitable<LinkResult<BulkLink>> connect_through(std::shared_ptr<Connector> self, Endpoint to);

  // Closes all connections whose handshake is not done, and makes no more.
  void close();

 private:
  class Pending;
  static asio::awaitable<void> welcome(std::shared_ptr<Connector> self, LinkPtr link, Admitted then);
  static asio::awaitable<LinkResult<wire::Hello>> greet(std::shared_ptr<Connector> self, LinkPtr link,
                                                        wire::Purpose purpose, std::uint64_t call);
  static asio::awaitable<LinkStatus> request_circuit(std::shared_ptr<Connector> self, LinkPtr link,
                                                     PeerId target);
  static asio::awaitable<void> send_refusal(std::shared_ptr<Connector> self, LinkPtr link,
                                            wire::Refusal refusal);
  void report_refusal(LinkErrorKind kind, const Link& link, const std::string& sentence);

  asio::any_io_executor executor_;
  Transport& transport_;
  Self self_;  // its Hello has the id and the key
  ConnectorOptions options_;
  std::shared_ptr<LinkCounters> counters_;
  Admission admission_;
  std::unique_ptr<Listener> listener_;
  std::set<LinkPtr> pending_;
  std::size_t refusing_ = 0;
  bool closed_ = false;
};

}  // namespace starling::transport
