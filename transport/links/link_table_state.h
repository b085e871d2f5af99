// The inside of a link table, for its own sources: link_table_state.cc (its life),
// link_table_routes.cc (sending and connecting) and link_table_links.cc (connections and their bounds).
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include "transport/coroutines.h"
#include "transport/dial/calls.h"
#include "transport/dial/connector.h"
#include "transport/dial/relay.h"
#include "transport/links/link_table_options.h"
#include "transport/links/routes.h"

namespace starling::transport {

// Shared by the table and every coroutine that it has started, which may outlive it.
//
// A *route* leads to a receiver and holds the messages that wait for it; a *connection* is a control link
// after its handshake. Routes of receivers with an id are kept by this id, the others by their address.
// Invariants:
//  1. by_id_ holds at most one connection per remote, the one that is written to; it is the connection of the
//     route with this id. The routes of addresses lead only to connections in by_id_.
//  2. A route with a queue is dialing, writing, calling or waiting (stage); each of the first two is one
//     coroutine. It waits only if dials_max routes are dialing.
//  3. A retired connection has ended its own direction and is read until the remote ends the other one, so
//     nothing that was written is lost.
//  4. There is one write at a time on a connection (writing).
class LinkTableState : public std::enable_shared_from_this<LinkTableState> {
 public:
  LinkTableState(asio::any_io_executor executor, Transport& transport, Self self, LinkTableEvents events,
                 LinkTableOptions options);

  // The parts refer to the State by weak pointers.
  void make_parts();

  Result<Address> listen(const Address& at);

  void send(const Endpoint& to, const wire::Message& message);

  // Static coroutines keep the State alive by a parameter.
  static asio::awaitable<LinkResult<BulkLink>> dial_bulk(std::shared_ptr<LinkTableState> self, Endpoint to);

  static asio::awaitable<void> shut_down(std::shared_ptr<LinkTableState> self, Duration at_most);

  void close();

  LinkCounters counters() const;

 private:
  friend class LinkTable;
  RoutePtr route_to(const Endpoint& to);

  ConnectionPtr connection_of(const Route& route) const;

  void drop_oldest(Route& route);

  void forget_if_unused(const Endpoint& to);

  bool any_busy() const;

  void report(const Endpoint& to, LinkErrorKind kind, const std::string& sentence);

  // ---- sending ----

  // Begins what a route needs next. REQUIRES: its stage is idle.
  void advance(const RoutePtr& route);

  std::size_t unlinked() const { return dialing_ + waiting_.size() + calling_.size(); }

  void give_up_longest_waiting();

  // Dials for the routes that wait, as far as the limit permits.
  void dial_waiting();

  // Begins to write the messages that waited for a dial or a call and now have this connection.
  void serve_waiting(const ConnectionPtr& connection);

  // ---- calls ----

  // Asks the receiver's home to have it dial this peer; the link that it makes is this route's.
  void call(const RoutePtr& route);

  // Calls are in the order of their deadlines.
  void arm_calls();

  void end_calls();

  // Drops the messages of a route without a connection, and reports why.
  void give_up(const RoutePtr& route, const LinkError& error);

  // ---- connecting ----

  // Writes a route's messages until its queue is empty or it has no connection.
  static asio::awaitable<void> write(std::shared_ptr<LinkTableState> self, RoutePtr route);

  // Connects a route and writes its messages, or empties its queue.
  static asio::awaitable<void> dial(std::shared_ptr<LinkTableState> self, RoutePtr route);

  // Uses the link that a dial has made, or returns why the receiver is not reached.
  std::optional<LinkError> take_dialed(PeerId expected, const Address& at, LinkResult<BulkLink> dialed);

  asio::awaitable<void> write_next(RoutePtr route, ConnectionPtr connection);

  // ---- accepting ----

  void take_inbound(LinkPtr link, wire::Hello remote);

  void serve_bulk(LinkPtr link, wire::Hello remote);

  // ---- connections ----

  // If both ends have dialed at about the same time, both keep the link that the lower id dialed. Otherwise
  // the newer link is better: the remote must have given up the older one.
  bool better(const ControlLink& fresh, const ControlLink& old) const;

  void adopt(ConnectionPtr fresh);

  // The routes of addresses where this end has dialed the remote lead to it; another peer that did so before
  // keeps its connection, but not the route. The remote's own word is good for an address that no other
  // connection was dialed at.
  void lead_routes_to(const ConnectionPtr& connection);

  // Takes a connection out of use; what was written on it still arrives.
  void retire(const ConnectionPtr& connection);

  void end_writing(ControlLink& connection);

  void detach(const ConnectionPtr& connection);

  // Handles the end of a connection; only the first call counts.
  void lose(const ConnectionPtr& connection, const LinkError& error);

  static asio::awaitable<void> read(std::shared_ptr<LinkTableState> self, ConnectionPtr connection);

  // ---- bounds ----

  // Whether a message is being written on it or waits for it.
  bool is_wanted(const ControlLink& connection) const;

  static bool used_before(const ConnectionPtr& a, const ConnectionPtr& b) { return a->used < b->used; }

  // Retires links beyond links_max, and irreplaceable ones beyond unaddressed_max. Those with messages to
  // write are retired after that.
  void trim(const ControlLink* spared);

  // Retires the least recently used connection of a kind, if there is one.
  bool retire_unused(bool irreplaceable, const ControlLink* spared);

  // Closes the longest unused retired links beyond handshakes_max.
  void cut_off_retired();

  void arm_sweep();

  void sweep();

  asio::any_io_executor executor_;
  Transport& transport_;
  LinkTableEvents events_;
  LinkTableOptions options_;
  std::shared_ptr<LinkCounters> counters_;
  std::shared_ptr<Connector> connector_;
  std::shared_ptr<Calls> calls_;
  std::shared_ptr<Relay> relay_;

  std::map<Endpoint, RoutePtr> routes_;  // by key_of()
  std::list<RoutePtr> waiting_;          // for a dial; the one that has waited longest first
  std::list<RoutePtr> calling_;          // the oldest call first
  std::map<PeerId, ConnectionPtr> by_id_;
  std::set<ConnectionPtr> open_;   // all of by_id_, and retired ones that are still read
  std::size_t irreplaceable_ = 0;  // of by_id_
  std::size_t dialing_ = 0;        // control links; dial() is under way or has been started

  asio::steady_timer sweep_;
  asio::steady_timer call_timer_;
  bool sweeping_ = false;
  Signal changed_;  // a route has drained, or a connection has ended
  bool closed_ = false;
};

}  // namespace starling::transport
