#include "transport/link_table.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include <asio/steady_timer.hpp>

#include "transport/coroutines.h"
#include "transport/handshake.h"
#include "transport/routes.h"
#include "wire/codec.h"

namespace starling::transport {
namespace {

using SteadyClock = std::chrono::steady_clock;

}  // namespace

// Shared by the table and every coroutine that it has started, which may outlive it.
//
// A *route* leads to a receiver and holds the messages that wait for it; a *connection* is a control link
// after its handshake. Routes of receivers with an id are kept by this id, the others by their address.
// Invariants:
//  1. by_id_ holds at most one connection per remote, the one that is written to; it is the connection of the
//     route with this id. The routes of addresses lead only to connections in by_id_.
//  2. A route with a queue is dialing, writing or waiting (stage); each of the first two is one coroutine. It
//     waits only if dials_max routes are dialing.
//  3. A retired connection has ended its own direction and is read until the remote ends the other one, so
//     nothing that was written is lost.
//  4. There is one write at a time on a connection (writing).
class LinkTable::State : public std::enable_shared_from_this<State> {
 public:
  State(asio::any_io_executor executor, Transport& transport, Self self, LinkTableEvents events,
        LinkTableOptions options)
      : executor_(std::move(executor)),
        transport_(transport),
        self_(std::move(self)),
        events_(std::move(events)),
        options_(options),
        admission_({.total = options.handshakes_max,
                    .per_source = options.handshakes_per_source_max,
                    .per_loopback_source = options.handshakes_per_loopback_max,
                    .reserved = options.handshakes_max / 16}),
        sweep_(executor_),
        changed_(executor_) {
    STARLING_CHECK(self_.identity != nullptr && options_.unlinked_max > options_.dials_max);
    set_hello(std::move(self_.hello));
  }

  void set_hello(wire::Hello hello) {
    self_.hello = std::move(hello);
    self_.hello.key = self_.identity->key();
    self_.hello.id = self_.identity->id();
  }

  Result<Address> listen(const Address& at) {
    auto listener = transport_.listen(at, [weak = weak_from_this()](LinkPtr link) {
      if (const auto self = weak.lock()) self->accept(std::move(link));
    });
    if (!listener.ok()) return listener.error();
    listener_ = std::move(*listener);
    return listener_->address();
  }

  void send(const Endpoint& to, const wire::Message& message) {
    STARLING_CHECK(travels_on_control(message));
    if (closed_) return;
    auto frame = wire::encode_frame(message);
    if (!frame.ok()) {
      ++counters_.messages_dropped;
      return;
    }
    const RoutePtr route = route_to(to);
    route->bytes += frame->size();
    route->queue.push_back({std::move(*frame)});
    while (route->queue.size() > options_.queue_messages_max ||
           (route->bytes > options_.queue_bytes_max && route->queue.size() > 1)) {
      drop_oldest(*route);
    }
    if (route->stage == RouteStage::idle) advance(route);
  }

  // Static coroutines keep the State alive by a parameter.
  static asio::awaitable<LinkResult<BulkLink>> dial_bulk(std::shared_ptr<State> self, Endpoint to) {
    auto dialed = co_await self->connect(to.address, wire::Purpose::bulk);
    if (!dialed.ok()) co_return dialed;
    if (to.id && dialed->remote.id != to.id) {
      dialed->link->close();
      self->note(LinkErrorKind::other_peer);
      co_return other_peer(to, dialed->remote);
    }
    ++self->counters_.bulk_dialed;
    co_return dialed;
  }

  void note(LinkErrorKind kind) { ++counters_.faults[static_cast<std::size_t>(kind)]; }

  static asio::awaitable<void> shut_down(std::shared_ptr<State> self, Duration at_most) {
    const auto deadline = SteadyClock::now() + at_most;
    if (self->listener_) self->listener_->close();
    const auto in_time = [&] { return !self->closed_ && SteadyClock::now() < deadline; };
    while (in_time() && self->any_busy()) co_await self->changed_.wait_until(deadline);
    const auto current = self->by_id_;
    for (const auto& [id, connection] : current) self->retire(connection);
    while (in_time() && !self->open_.empty()) co_await self->changed_.wait_until(deadline);
    self->close();
  }

  void close() {
    if (std::exchange(closed_, true)) return;
    if (listener_) listener_->close();
    sweep_.cancel();
    for (const LinkPtr& link : handshaking_) link->close();
    for (const ConnectionPtr& connection : open_) {
      connection->link->close();
      connection->changed.raise();
    }
    for (const auto& [key, route] : routes_) {
      counters_.messages_dropped += route->queue.size();
      route->queue.clear();
      route->connection.reset();
    }
    routes_.clear();
    waiting_.clear();
    by_id_.clear();
    open_.clear();
    changed_.raise();
  }

  LinkCounters counters() const {
    LinkCounters all = counters_;
    all.traffic = transport_.traffic();
    return all;
  }

 private:
  friend LinkTable;
  RoutePtr route_to(const Endpoint& to) {
    RoutePtr& route = routes_[key_of(to)];
    if (!route) route = std::make_shared<Route>();
    route->to = to;
    return route;
  }

  ConnectionPtr connection_of(const Route& route) const {
    if (!route.to.id) return route.connection;
    const auto found = by_id_.find(route.to.id);
    return found == by_id_.end() ? nullptr : found->second;
  }

  void drop_oldest(Route& route) {
    route.bytes -= route.queue.front().frame.size();
    route.queue.pop_front();
    ++counters_.messages_dropped;
  }

  void forget_if_unused(const Endpoint& to) {
    const auto found = routes_.find(key_of(to));
    if (found == routes_.end()) return;
    const Route& route = *found->second;
    if (route.stage == RouteStage::idle && route.queue.empty() && !route.connection) routes_.erase(found);
  }

  bool any_busy() const {
    return std::ranges::any_of(routes_,
                               [](const auto& entry) { return entry.second->stage != RouteStage::idle; });
  }

  void report(const Endpoint& to, LinkErrorKind kind, const std::string& sentence) {
    if (!closed_ && events_.on_unreachable) events_.on_unreachable(to, kind, sentence);
  }

  // ---- sending ----

  // Begins what a route needs next. REQUIRES: its stage is idle.
  void advance(const RoutePtr& route) {
    if (closed_) return;
    if (route->queue.empty()) {
      forget_if_unused(route->to);
      trim(nullptr);
      changed_.raise();
    } else if (connection_of(*route)) {
      route->stage = RouteStage::writing;
      spawn(executor_, write(shared_from_this(), route));
    } else if (dialing_ < options_.dials_max) {
      route->stage = RouteStage::dialing;
      ++dialing_;
      spawn(executor_, dial(shared_from_this(), route));
    } else {
      route->stage = RouteStage::waiting;
      waiting_.push_back(route);
      if (unlinked() > options_.unlinked_max) give_up_longest_waiting();
    }
  }

  std::size_t unlinked() const { return dialing_ + waiting_.size(); }

  void give_up_longest_waiting() {
    const RoutePtr route = waiting_.front();
    waiting_.pop_front();
    route->stage = RouteStage::idle;
    while (!route->queue.empty()) drop_oldest(*route);
    forget_if_unused(route->to);
  }

  // Dials for the routes that wait, as far as the limit permits.
  void dial_waiting() {
    while (!closed_ && !waiting_.empty() && dialing_ < options_.dials_max) {
      const RoutePtr route = waiting_.front();
      waiting_.pop_front();
      route->stage = RouteStage::idle;
      advance(route);
    }
  }

  // Begins to write the messages that waited for a dial and now have this connection.
  void serve_waiting(const ConnectionPtr& connection) {
    for (auto next = waiting_.begin(); next != waiting_.end();) {
      const RoutePtr route = *next;
      if (connection_of(*route) != connection) {
        ++next;
        continue;
      }
      next = waiting_.erase(next);
      route->stage = RouteStage::idle;
      advance(route);
    }
  }

  // Writes a route's messages until its queue is empty or it has no connection.
  static asio::awaitable<void> write(std::shared_ptr<State> self, RoutePtr route) {
    while (!self->closed_ && !route->queue.empty()) {
      const ConnectionPtr connection = self->connection_of(*route);
      if (!connection) break;
      if (connection->writing) {
        co_await connection->changed.wait();
      } else {
        co_await self->write_next(route, connection);
      }
    }
    route->stage = RouteStage::idle;
    self->advance(route);
    self->changed_.raise();
  }

  // Connects a route and writes its messages, or empties its queue.
  static asio::awaitable<void> dial(std::shared_ptr<State> self, RoutePtr route) {
    const Endpoint to = route->to;
    auto dialed = co_await self->connect(to.address, wire::Purpose::control);
    --self->dialing_;
    if (self->closed_) co_return;
    if (const auto error = self->take_dialed(to, std::move(dialed))) {
      if (!self->connection_of(*route)) {  // the receiver may have dialed this peer meanwhile
        while (!route->queue.empty()) self->drop_oldest(*route);
        self->report(to, error->kind, error->message);
      }
    }
    self->dial_waiting();
    route->stage = RouteStage::writing;
    co_await write(self, route);  // at once, so that the link can make room for others
  }

  // Uses the link that a dial has made, or returns why the receiver is not reached.
  std::optional<LinkError> take_dialed(const Endpoint& to, LinkResult<BulkLink> dialed) {
    if (!dialed.ok()) return dialed.error();
    ++counters_.links_dialed;
    std::optional<LinkError> error;
    if (to.id && dialed->remote.id != to.id) {
      error = other_peer(to, dialed->remote);
      note(error->kind);
    }
    const auto connection =
        std::make_shared<ControlLink>(executor_, std::move(dialed->link), std::move(dialed->remote), true);
    connection->dialed_at.insert(to.address);
    adopt(connection);
    return error;
  }

  asio::awaitable<void> write_next(RoutePtr route, ConnectionPtr connection) {
    Waiting waiting = std::move(route->queue.front());
    route->queue.pop_front();
    route->bytes -= waiting.frame.size();

    connection->writing = true;
    connection->link->expires_after(options_.write_limit);
    const LinkStatus written = co_await connection->link->write(waiting.frame);
    connection->writing = false;
    connection->changed.raise();
    connection->used = SteadyClock::now();
    if (written.ok()) {
      ++counters_.messages_sent;
      if (connection->retired) {
        end_writing(*connection);
      } else {
        connection->link->expires_never();
      }
      co_return;
    }
    if (closed_) co_return;
    lose(connection, written.error());
    if (waiting.tried) {
      ++counters_.messages_dropped;
    } else {
      waiting.tried = true;
      route->bytes += waiting.frame.size();
      route->queue.push_front(std::move(waiting));
    }
  }

  asio::awaitable<LinkResult<BulkLink>> connect(Address to, wire::Purpose purpose) {
    auto dialed = co_await transport_.dial(to, options_.dial_limit);
    if (!dialed.ok()) {
      note(dialed.error().kind);
      co_return dialed.error();
    }
    const LinkPtr link = *dialed;
    link->travel_as(transport_.shapes().to(to));
    Self self = self_;
    self.hello.purpose = purpose;
    handshaking_.insert(link);
    if (closed_) link->close();
    auto remote = co_await introduce(*link, std::move(self), options_.handshake_limit);
    handshaking_.erase(link);
    if (!remote.ok()) {
      note(remote.error().kind);
      co_return remote.error();
    }
    admission_.remember(link->remote());
    co_return BulkLink{link, std::move(*remote)};
  }

  // ---- accepting ----

  void accept(LinkPtr link) {
    if (closed_) return link->close();
    const auto closed = admission_.enter(link);
    if (closed) {
      report_refusal(LinkErrorKind::over_limit, *closed->link, closed->sentence);
      if (closed->link == link) return;
    }
    spawn(executor_, welcome(shared_from_this(), std::move(link)));
  }

  void report_refusal(LinkErrorKind kind, const Link& link, const std::string& sentence) {
    note(kind);
    if (events_.on_refused) events_.on_refused(kind, source_of(link.remote().host), sentence);
  }

  static asio::awaitable<void> welcome(std::shared_ptr<State> self, LinkPtr link) {
    Self mine = self->self_;
    self->handshaking_.insert(link);
    if (self->closed_) link->close();
    auto remote = co_await admit(*link, std::move(mine), self->options_.handshake_limit);
    self->handshaking_.erase(link);
    const bool had_place = self->admission_.leave(link);
    if (self->closed_ || !had_place) {
      link->close();
      co_return;
    }
    if (!remote.ok()) {
      const LinkError& error = remote.error();
      if (error.kind == LinkErrorKind::timed_out) ++self->counters_.handshake_timeouts;
      self->report_refusal(error.kind, *link, error.message);
      co_return;
    }
    self->admission_.remember(link->remote());
    link->travel_as(self->transport_.shapes().to(listening_address(*remote, *link)));
    if (remote->purpose == wire::Purpose::bulk) {
      if (self->events_.on_bulk) self->events_.on_bulk(std::move(link), std::move(*remote));
      co_return;
    }
    ++self->counters_.links_accepted;
    self->adopt(std::make_shared<ControlLink>(self->executor_, std::move(link), std::move(*remote), false));
  }

  // ---- connections ----

  // If both ends have dialed at about the same time, both keep the link that the lower id dialed. Otherwise
  // the newer link is better: the remote must have given up the older one.
  bool better(const ControlLink& fresh, const ControlLink& old) const {
    const bool simultaneous = fresh.dialed != old.dialed &&
                              fresh.since - old.since < options_.dial_limit + options_.handshake_limit;
    if (!simultaneous) return true;
    const PeerId mine = self_.hello.id;
    return fresh.dialed ? mine < fresh.remote.id : fresh.remote.id < mine;
  }

  void adopt(ConnectionPtr fresh) {
    open_.insert(fresh);
    spawn(executor_, read(shared_from_this(), fresh));

    const auto found = by_id_.find(fresh->remote.id);
    const ConnectionPtr old = found == by_id_.end() ? nullptr : found->second;
    if (old && !better(*fresh, *old)) {
      old->dialed_at.merge(fresh->dialed_at);
      lead_routes_to(old);
      retire(fresh);
      return;
    }
    if (old) {
      fresh->dialed_at.merge(old->dialed_at);
      retire(old);
    }
    by_id_[fresh->remote.id] = fresh;
    lead_routes_to(fresh);
    serve_waiting(fresh);
    trim(fresh.get());
    arm_sweep();
  }

  // The routes of addresses where this end has dialed the remote lead to it; another peer that did so before
  // keeps its connection, but not the route. The remote's own word is good for an address that no other
  // connection was dialed at.
  void lead_routes_to(const ConnectionPtr& connection) {
    for (const Address& address : connection->dialed_at) route_to({{}, address})->connection = connection;
    ConnectionPtr& claimed = route_to({{}, connection->listens_at})->connection;
    if (!claimed || !claimed->dialed_at.contains(connection->listens_at)) claimed = connection;
  }

  // Takes a connection out of use; what was written on it still arrives.
  void retire(const ConnectionPtr& connection) {
    if (std::exchange(connection->retired, true)) return;
    detach(connection);
    if (!connection->writing) end_writing(*connection);
  }

  void end_writing(ControlLink& connection) {
    connection.link->expires_after(options_.handshake_limit);
    connection.link->finish();
  }

  void detach(const ConnectionPtr& connection) {
    const auto found = by_id_.find(connection->remote.id);
    if (found != by_id_.end() && found->second == connection) by_id_.erase(found);
    for (const Endpoint& to : receivers(*connection)) {
      const auto route = routes_.find(to);
      if (route == routes_.end() || route->second->connection != connection) continue;
      route->second->connection.reset();
      forget_if_unused(to);
    }
  }

  // Handles the end of a connection; only the first call counts.
  void lose(const ConnectionPtr& connection, const LinkError& error) {
    if (closed_ || std::exchange(connection->lost, true)) return;
    connection->link->close();
    connection->changed.raise();
    detach(connection);
    open_.erase(connection);
    changed_.raise();
    using Kind = LinkErrorKind;
    if (error.kind == Kind::closed || error.kind == Kind::closed_by_peer) return;
    if (connection->retired && error.kind == Kind::timed_out) return;
    note(error.kind);
    if (connection->retired) return;
    report({connection->remote.id, connection->listens_at}, error.kind,
           "the link to " + to_string(connection->listens_at) + " is lost: " + error.message);
  }

  static asio::awaitable<void> read(std::shared_ptr<State> self, ConnectionPtr connection) {
    for (;;) {
      auto message = co_await read_message(*connection->link);
      if (self->closed_) co_return;
      if (message.ok()) {
        if (auto fault = fault_of(*message)) message = std::move(*fault);
      }
      if (!message.ok()) {
        self->lose(connection, message.error());
        co_return;
      }
      connection->used = connection->received = SteadyClock::now();
      ++self->counters_.messages_received;
      if (self->events_.on_message) {
        self->events_.on_message(connection->remote.id, connection->listens_at, std::move(*message));
      }
      if (self->closed_) co_return;
    }
  }

  // ---- bounds ----

  // Whether a message is being written on it or waits for it.
  bool is_wanted(const ControlLink& connection) const {
    return connection.writing || std::ranges::any_of(receivers(connection), [&](const Endpoint& to) {
             const auto route = routes_.find(to);
             return route != routes_.end() && !route->second->queue.empty() &&
                    connection_of(*route->second).get() == &connection;
           });
  }

  static bool used_before(const ConnectionPtr& a, const ConnectionPtr& b) { return a->used < b->used; }

  // Retires links beyond links_max. Those with messages to write are retired after that.
  void trim(const ControlLink* spared) {
    while (by_id_.size() > options_.links_max) {
      ConnectionPtr victim;
      for (const auto& [id, connection] : by_id_) {
        if (connection.get() == spared || is_wanted(*connection)) continue;
        if (!victim || used_before(connection, victim)) victim = connection;
      }
      if (!victim) return;
      retire(victim);
    }
    cut_off_retired();
  }

  // Closes the longest unused retired links beyond handshakes_max.
  void cut_off_retired() {
    if (open_.size() <= by_id_.size() + options_.handshakes_max) return;
    std::vector<ConnectionPtr> retired;
    std::ranges::copy_if(open_, std::back_inserter(retired), [](const ConnectionPtr& connection) {
      return connection->retired && connection->link->is_open();
    });
    if (retired.size() <= options_.handshakes_max) return;
    std::sort(retired.begin(), retired.end(), used_before);
    retired.resize(retired.size() - options_.handshakes_max);
    for (const ConnectionPtr& connection : retired) connection->link->close();
  }

  void arm_sweep() {
    if (std::exchange(sweeping_, true)) return;
    sweep_.expires_after(options_.idle_limit / 2);
    sweep_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
      const auto self = weak.lock();
      if (!error && self && !self->closed_) self->sweep();
    });
  }

  void sweep() {
    sweeping_ = false;
    const auto now = SteadyClock::now();
    const auto current = by_id_;
    for (const auto& [id, connection] : current) {
      const bool idle = now - connection->used >= options_.idle_limit;
      const bool silent = now - connection->received >= 2 * options_.idle_limit;
      if (silent || connection->link->is_outdated() || (idle && !is_wanted(*connection))) retire(connection);
    }
    if (!by_id_.empty()) arm_sweep();
  }

  asio::any_io_executor executor_;
  Transport& transport_;
  Self self_;  // its Hello has the id and the key
  LinkTableEvents events_;
  LinkTableOptions options_;
  Admission admission_;  // of inbound handshakes
  LinkCounters counters_;
  std::unique_ptr<Listener> listener_;

  std::map<Endpoint, RoutePtr> routes_;  // by key_of()
  std::list<RoutePtr> waiting_;          // for a dial; the one that has waited longest first
  std::map<PeerId, ConnectionPtr> by_id_;
  std::set<ConnectionPtr> open_;  // those of by_id_, and retired ones that are still read
  std::set<LinkPtr> handshaking_;
  std::size_t dialing_ = 0;  // control links; dial() is under way or has been started

  asio::steady_timer sweep_;
  bool sweeping_ = false;
  Signal changed_;  // a route has drained, or a connection has ended
  bool closed_ = false;
};

LinkTable::LinkTable(asio::any_io_executor executor, Transport& transport, Self self, LinkTableEvents events,
                     LinkTableOptions options)
    : state_(std::make_shared<State>(std::move(executor), transport, std::move(self), std::move(events),
                                     options)) {}

LinkTable::~LinkTable() { state_->close(); }

Result<Address> LinkTable::listen(const Address& at) { return state_->listen(at); }
void LinkTable::set_hello(wire::Hello self) { state_->set_hello(std::move(self)); }
const wire::Hello& LinkTable::hello() const { return state_->self_.hello; }
void LinkTable::send(const Endpoint& to, const wire::Message& message) { state_->send(to, message); }
asio::awaitable<LinkResult<BulkLink>> LinkTable::dial_bulk(Endpoint to) {
  return State::dial_bulk(state_, std::move(to));
}
void LinkTable::note(const LinkError& error) { state_->note(error.kind); }
asio::awaitable<void> LinkTable::shut_down(Duration at_most) { return State::shut_down(state_, at_most); }
void LinkTable::close() { state_->close(); }
LinkCounters LinkTable::counters() const { return state_->counters(); }
std::size_t LinkTable::links() const { return state_->by_id_.size(); }
std::size_t LinkTable::handshakes() const { return state_->admission_.size(); }
std::size_t LinkTable::unlinked() const { return state_->unlinked(); }

}  // namespace starling::transport
