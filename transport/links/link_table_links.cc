// Control links after their handshake: which one is used, how it ends, and how many there are.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <vector>

#include "transport/links/link_table_state.h"

namespace starling::transport {
namespace {

using LinkClock = std::chrono::steady_clock;

}  // namespace

void LinkTableState::take_inbound(LinkPtr link, wire::Hello remote) {
  link->travel_as(transport_.shapes().to(listening_address(remote, *link)));
  if (remote.purpose == wire::Purpose::relay) return relay_->take(std::move(link), std::move(remote));
  if (remote.purpose == wire::Purpose::bulk) {
    if (remote.call != 0) return calls_->take_answer(std::move(link), std::move(remote));
    return serve_bulk(std::move(link), std::move(remote));
  }
  ++counters_->links_accepted;
  adopt(std::make_shared<ControlLink>(executor_, std::move(link), std::move(remote), false));
}

void LinkTableState::serve_bulk(LinkPtr link, wire::Hello remote) {
  if (!closed_ && events_.on_bulk) return events_.on_bulk(std::move(link), std::move(remote));
  link->close();
}

bool LinkTableState::better(const ControlLink& fresh, const ControlLink& old) const {
  const bool simultaneous =
      fresh.dialed != old.dialed && fresh.since - old.since < options_.dial_limit + options_.handshake_limit;
  if (!simultaneous) return true;
  const PeerId mine = connector_->id();
  return fresh.dialed ? mine < fresh.remote.id : fresh.remote.id < mine;
}

void LinkTableState::adopt(ConnectionPtr fresh) {
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
  if (fresh->is_irreplaceable()) ++irreplaceable_;
  lead_routes_to(fresh);
  serve_waiting(fresh);
  trim(fresh.get());
  arm_sweep();
}

void LinkTableState::lead_routes_to(const ConnectionPtr& connection) {
  for (const Address& address : connection->dialed_at) route_to({{}, address})->connection = connection;
  if (!connection->listens_at) return;
  ConnectionPtr& claimed = route_to({{}, connection->listens_at})->connection;
  if (!claimed || !claimed->dialed_at.contains(connection->listens_at)) claimed = connection;
}

void LinkTableState::retire(const ConnectionPtr& connection) {
  if (std::exchange(connection->retired, true)) return;
  detach(connection);
  if (!connection->writing) end_writing(*connection);
}

void LinkTableState::end_writing(ControlLink& connection) {
  connection.link->expires_after(options_.handshake_limit);
  connection.link->finish();
}

void LinkTableState::detach(const ConnectionPtr& connection) {
  const auto found = by_id_.find(connection->remote.id);
  if (found != by_id_.end() && found->second == connection) {
    by_id_.erase(found);
    if (connection->is_irreplaceable()) --irreplaceable_;
  }
  for (const Endpoint& to : receivers(*connection)) {
    const auto route = routes_.find(to);
    if (route == routes_.end() || route->second->connection != connection) continue;
    route->second->connection.reset();
    forget_if_unused(to);
  }
}

void LinkTableState::lose(const ConnectionPtr& connection, const LinkError& error) {
  if (closed_ || std::exchange(connection->lost, true)) return;
  connection->link->close();
  connection->changed.raise();
  detach(connection);
  open_.erase(connection);
  changed_.raise();
  using Kind = LinkErrorKind;
  if (error.kind == Kind::closed || error.kind == Kind::closed_by_peer) return;
  if (connection->retired && error.kind == Kind::timed_out) return;
  counters_->note(error.kind);
  if (connection->retired) return;
  const Address& at = connection->listens_at;
  report({connection->remote.id, at}, error.kind,
         "the link to " + (at ? to_string(at) : to_string(connection->remote.id)) +
             " is lost: " + error.message);
}

asio::awaitable<void> LinkTableState::read(std::shared_ptr<LinkTableState> self, ConnectionPtr connection) {
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
    connection->used = connection->received = LinkClock::now();
    ++self->counters_->messages_received;
    if (self->events_.on_message) {
      self->events_.on_message(connection->remote.id, connection->listens_at, std::move(*message));
    }
    if (self->closed_) co_return;
  }
}

bool LinkTableState::is_wanted(const ControlLink& connection) const {
  return connection.writing || std::ranges::any_of(receivers(connection), [&](const Endpoint& to) {
           const auto route = routes_.find(to);
           return route != routes_.end() && !route->second->queue.empty() &&
                  connection_of(*route->second).get() == &connection;
         });
}

void LinkTableState::trim(const ControlLink* spared) {
  while (by_id_.size() - irreplaceable_ > options_.links_max && retire_unused(false, spared)) {
  }
  while (irreplaceable_ > options_.unaddressed_max && retire_unused(true, spared)) {
  }
  cut_off_retired();
}

bool LinkTableState::retire_unused(bool irreplaceable, const ControlLink* spared) {
  ConnectionPtr victim;
  for (const auto& [id, connection] : by_id_) {
    if (connection->is_irreplaceable() != irreplaceable || connection.get() == spared) continue;
    if (is_wanted(*connection)) continue;
    if (!victim || used_before(connection, victim)) victim = connection;
  }
  if (victim) retire(victim);
  return victim != nullptr;
}

void LinkTableState::cut_off_retired() {
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

void LinkTableState::arm_sweep() {
  if (std::exchange(sweeping_, true)) return;
  sweep_.expires_after(options_.idle_limit / 2);
  sweep_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
    const auto self = weak.lock();
    if (!error && self && !self->closed_) self->sweep();
  });
}

void LinkTableState::sweep() {
  sweeping_ = false;
  const auto now = LinkClock::now();
  const auto current = by_id_;
  for (const auto& [id, connection] : current) {
    const bool idle = !connection->is_irreplaceable() && now - connection->used >= options_.idle_limit;
    const bool silent = now - connection->received >= 2 * options_.idle_limit;
    if (silent || connection->link->is_outdated() || (idle && !is_wanted(*connection))) retire(connection);
  }
  if (!by_id_.empty()) arm_sweep();
}

}  // namespace starling::transport
