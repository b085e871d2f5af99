#include "transport/link_table.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include <asio/steady_timer.hpp>

#include "transport/coroutines.h"
#include "transport/handshake.h"
#include "wire/codec.h"

namespace starling::transport {
namespace {

using SteadyClock = std::chrono::steady_clock;

template <class... Types>
bool is_any(const wire::Message& message) {
  return (std::holds_alternative<Types>(message) || ...);
}

bool travels_on_control(const wire::Message& message) {
  return is_any<wire::Refusal, wire::Ping, wire::PingRequest, wire::Ack, wire::Gossip, wire::Digest,
                wire::View, wire::Join, wire::Welcome, wire::Leave, wire::Rewire>(message);
}

// Where the remote can be dialed: at its connection's host if it listens on all interfaces.
Address listening_address(const wire::Hello& remote, const Link& link) {
  const bool anywhere = remote.address.host == "0.0.0.0" || remote.address.host == "::";
  return {anywhere ? link.remote().host : remote.address.host, remote.address.port};
}

}  // namespace

// Shared by the table and every coroutine that it has started, which may outlive it.
//
// A *route* leads to an address and holds the messages that wait for it; a *connection* is a control link
// after its handshake. Invariants:
//  1. by_id_ holds at most one connection per remote, the one that is written to; routes point only to those.
//  2. A route with a queue has exactly one drain() under way (busy), which dials if the route has no
//     connection.
//  3. A retired connection has ended its own direction and is read until the remote ends the other one, so
//     nothing that was written is lost.
//  4. There is one write at a time on a connection (writing).
class LinkTable::State : public std::enable_shared_from_this<State> {
 public:
  State(asio::any_io_executor executor, Transport& transport, wire::Hello self, LinkTableEvents events,
        LinkTableOptions options)
      : executor_(std::move(executor)),
        transport_(transport),
        hello_(std::move(self)),
        events_(std::move(events)),
        options_(options),
        admission_({.total = options.handshakes_max,
                    .per_source = options.handshakes_per_source_max,
                    .per_loopback_source = options.handshakes_per_loopback_max,
                    .reserved = options.handshakes_max / 16}),
        sweep_(executor_),
        dial_ended_(executor_),
        changed_(executor_) {}

  Result<Address> listen(const Address& at) {
    auto listener = transport_.listen(at, [weak = weak_from_this()](LinkPtr link) {
      if (const auto self = weak.lock()) self->accept(std::move(link));
    });
    if (!listener.ok()) return listener.error();
    listener_ = std::move(*listener);
    return listener_->address();
  }

  void send(const Address& to, const wire::Message& message) {
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
    if (!route->busy) {
      route->busy = true;
      spawn(executor_, drain(shared_from_this(), route));
    }
  }

  // Static coroutines keep the State alive by a parameter.
  static asio::awaitable<LinkResult<BulkLink>> dial_bulk(std::shared_ptr<State> self, Address to) {
    auto dialed = co_await self->connect(to, wire::Purpose::bulk);
    if (dialed.ok()) ++self->counters_.bulk_dialed;
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
    for (const auto& [address, route] : routes_) {
      counters_.messages_dropped += route->queue.size();
      route->queue.clear();
      route->connection.reset();
    }
    routes_.clear();
    by_id_.clear();
    open_.clear();
    dial_ended_.raise();
    changed_.raise();
  }

  LinkCounters counters() const {
    LinkCounters all = counters_;
    all.traffic = transport_.traffic();
    return all;
  }

 private:
  friend LinkTable;
  struct Connection {
    Connection(const asio::any_io_executor& executor, LinkPtr l, wire::Hello hello, bool by_us)
        : link(std::move(l)),
          remote(std::move(hello)),
          listens_at(listening_address(remote, *link)),
          dialed(by_us),
          changed(executor) {}

    LinkPtr link;
    wire::Hello remote;
    Address listens_at;
    bool dialed;                  // by this end
    std::set<Address> addresses;  // the addresses whose routes lead here
    SteadyClock::time_point since = SteadyClock::now();
    SteadyClock::time_point used = since, received = since;
    bool writing = false;
    bool retired = false;
    bool lost = false;
    Signal changed;  // a write has ended
  };
  using ConnectionPtr = std::shared_ptr<Connection>;

  struct Waiting {
    std::vector<std::byte> frame;
    bool tried = false;  // once, on a link that broke
  };
  struct Route {
    Address to;
    std::deque<Waiting> queue;
    std::size_t bytes = 0;  // in the queue
    bool busy = false;
    ConnectionPtr connection;
  };
  using RoutePtr = std::shared_ptr<Route>;

  RoutePtr route_to(const Address& to) {
    RoutePtr& route = routes_[to];
    if (!route) {
      route = std::make_shared<Route>();
      route->to = to;
    }
    return route;
  }

  void drop_oldest(Route& route) {
    route.bytes -= route.queue.front().frame.size();
    route.queue.pop_front();
    ++counters_.messages_dropped;
  }

  void forget_if_unused(const Address& to) {
    const auto found = routes_.find(to);
    if (found == routes_.end()) return;
    const Route& route = *found->second;
    if (!route.busy && route.queue.empty() && !route.connection) routes_.erase(found);
  }

  bool any_busy() const {
    return std::ranges::any_of(routes_, [](const auto& entry) { return entry.second->busy; });
  }

  void report(const Address& address, LinkErrorKind kind, const std::string& sentence) {
    if (!closed_ && events_.on_unreachable) events_.on_unreachable(address, kind, sentence);
  }

  // ---- sending ----

  // Writes a route's messages until its queue is empty.
  static asio::awaitable<void> drain(std::shared_ptr<State> self, RoutePtr route) {
    while (!self->closed_ && !route->queue.empty()) {
      const ConnectionPtr connection = route->connection;
      if (!connection) {
        co_await self->dial_for(route);
      } else if (connection->writing) {
        co_await connection->changed.wait();
      } else {
        co_await self->write_next(route, connection);
      }
    }
    route->busy = false;
    if (!self->closed_) {
      self->forget_if_unused(route->to);
      self->trim(nullptr);
    }
    self->changed_.raise();
  }

  // Connects the route, or empties its queue.
  asio::awaitable<void> dial_for(RoutePtr route) {
    while (dialing_ >= options_.dials_max && !closed_) co_await dial_ended_.wait();
    if (closed_ || route->connection) co_return;
    ++dialing_;
    auto dialed = co_await connect(route->to, wire::Purpose::control);
    --dialing_;
    dial_ended_.raise();
    if (closed_) co_return;
    if (dialed.ok()) {
      ++counters_.links_dialed;
      auto connection =
          std::make_shared<Connection>(executor_, std::move(dialed->link), std::move(dialed->remote), true);
      connection->addresses.insert(route->to);
      adopt(connection);
    } else if (!route->connection) {  // the remote may have dialed us meanwhile
      while (!route->queue.empty()) drop_oldest(*route);
      report(route->to, dialed.error().kind, dialed.error().message);
    }
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
    wire::Hello mine = hello_;
    mine.purpose = purpose;
    handshaking_.insert(link);
    if (closed_) link->close();
    auto remote = co_await introduce(*link, mine, options_.handshake_limit);
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
    const wire::Hello mine = self->hello_;
    self->handshaking_.insert(link);
    if (self->closed_) link->close();
    auto remote = co_await admit(*link, mine, self->options_.handshake_limit);
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
    self->adopt(std::make_shared<Connection>(self->executor_, std::move(link), std::move(*remote), false));
  }

  // ---- connections ----

  // If both ends have dialed at about the same time, both keep the link that the lower id dialed. Otherwise
  // the newer link is better: the remote must have given up the older one.
  bool better(const Connection& fresh, const Connection& old) const {
    const bool simultaneous = fresh.dialed != old.dialed &&
                              fresh.since - old.since < options_.dial_limit + options_.handshake_limit;
    if (!simultaneous) return true;
    return fresh.dialed ? hello_.id < fresh.remote.id : fresh.remote.id < hello_.id;
  }

  void adopt(ConnectionPtr fresh) {
    fresh->addresses.insert(fresh->listens_at);
    open_.insert(fresh);
    spawn(executor_, read(shared_from_this(), fresh));

    const auto found = by_id_.find(fresh->remote.id);
    const ConnectionPtr old = found == by_id_.end() ? nullptr : found->second;
    if (old && !better(*fresh, *old)) {
      old->addresses.merge(fresh->addresses);
      lead_routes_to(old);
      retire(fresh);
      return;
    }
    if (old) {
      fresh->addresses.insert(old->addresses.begin(), old->addresses.end());
      retire(old);
    }
    by_id_[fresh->remote.id] = fresh;
    lead_routes_to(fresh);
    trim(fresh.get());
    arm_sweep();
  }

  void lead_routes_to(const ConnectionPtr& connection) {
    for (const Address& address : connection->addresses) {
      const RoutePtr route = route_to(address);
      const ConnectionPtr before = std::exchange(route->connection, connection);
      // An earlier instance of the peer that listens there.
      if (before && before != connection) retire(before);
    }
  }

  // Takes a connection out of use; what was written on it still arrives.
  void retire(const ConnectionPtr& connection) {
    if (std::exchange(connection->retired, true)) return;
    detach(connection);
    if (!connection->writing) end_writing(*connection);
  }

  void end_writing(Connection& connection) {
    connection.link->expires_after(options_.handshake_limit);
    connection.link->finish();
  }

  void detach(const ConnectionPtr& connection) {
    const auto found = by_id_.find(connection->remote.id);
    if (found != by_id_.end() && found->second == connection) by_id_.erase(found);
    for (const Address& address : connection->addresses) {
      const auto route = routes_.find(address);
      if (route == routes_.end() || route->second->connection != connection) continue;
      route->second->connection.reset();
      forget_if_unused(address);
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
    report(connection->listens_at, error.kind,
           "the link to " + to_string(connection->listens_at) + " is lost: " + error.message);
  }

  static asio::awaitable<void> read(std::shared_ptr<State> self, ConnectionPtr connection) {
    for (;;) {
      auto message = co_await read_message(*connection->link);
      if (self->closed_) co_return;
      if (message.ok() && !travels_on_control(*message)) {
        message = LinkError{{"a " + std::string(wire::name(*message)) + " on a control link"},
                            LinkErrorKind::malformed};
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
  bool is_wanted(const Connection& connection) const {
    return connection.writing || std::ranges::any_of(connection.addresses, [&](const Address& address) {
             const auto route = routes_.find(address);
             return route != routes_.end() && !route->second->queue.empty();
           });
  }

  static bool used_before(const ConnectionPtr& a, const ConnectionPtr& b) { return a->used < b->used; }

  // Retires links beyond links_max. Those with messages to write are retired after that.
  void trim(const Connection* spared) {
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
  wire::Hello hello_;
  LinkTableEvents events_;
  LinkTableOptions options_;
  Admission admission_;  // of inbound handshakes
  LinkCounters counters_;
  std::unique_ptr<Listener> listener_;

  std::map<Address, RoutePtr> routes_;
  std::map<PeerId, ConnectionPtr> by_id_;
  std::set<ConnectionPtr> open_;  // those of by_id_, and retired ones that are still read
  std::set<LinkPtr> handshaking_;
  std::size_t dialing_ = 0;  // control links

  asio::steady_timer sweep_;
  bool sweeping_ = false;
  Signal dial_ended_;
  Signal changed_;  // a route has drained, or a connection has ended
  bool closed_ = false;
};

LinkTable::LinkTable(asio::any_io_executor executor, Transport& transport, wire::Hello self,
                     LinkTableEvents events, LinkTableOptions options)
    : state_(std::make_shared<State>(std::move(executor), transport, std::move(self), std::move(events),
                                     options)) {}

LinkTable::~LinkTable() { state_->close(); }

Result<Address> LinkTable::listen(const Address& at) { return state_->listen(at); }
void LinkTable::set_hello(wire::Hello self) { state_->hello_ = std::move(self); }
const wire::Hello& LinkTable::hello() const { return state_->hello_; }
void LinkTable::send(const Address& to, const wire::Message& message) { state_->send(to, message); }
asio::awaitable<LinkResult<BulkLink>> LinkTable::dial_bulk(Address to) {
  return State::dial_bulk(state_, std::move(to));
}
void LinkTable::note(const LinkError& error) { state_->note(error.kind); }
asio::awaitable<void> LinkTable::shut_down(Duration at_most) { return State::shut_down(state_, at_most); }
void LinkTable::close() { state_->close(); }
LinkCounters LinkTable::counters() const { return state_->counters(); }
std::size_t LinkTable::links() const { return state_->by_id_.size(); }
std::size_t LinkTable::handshakes() const { return state_->admission_.size(); }

}  // namespace starling::transport
