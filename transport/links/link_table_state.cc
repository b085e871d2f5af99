#include "transport/links/link_table_state.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "wire/codec.h"

namespace starling::transport {
namespace {

using SteadyClock = std::chrono::steady_clock;

ConnectorOptions connector_options(const LinkTableOptions& options, const LinkTableEvents& events) {
  return {.dial_limit = options.dial_limit,
          .handshake_limit = options.handshake_limit,
          .inbound = {.total = options.handshakes_max,
                      .per_source = options.handshakes_per_source_max,
                      .per_loopback_source = options.handshakes_per_loopback_max,
                      .reserved = options.handshakes_max / 16},
          .on_refused = events.on_refused};
}

}  // namespace

LinkTableState::LinkTableState(asio::any_io_executor executor, Transport& transport, Self self,
                               LinkTableEvents events, LinkTableOptions options)
    : executor_(executor),
      transport_(transport),
      events_(std::move(events)),
      options_(options),
      counters_(std::make_shared<LinkCounters>()),
      connector_(std::make_shared<Connector>(std::move(executor), transport, std::move(self),
                                             connector_options(options_, events_), counters_)),
      sweep_(executor_),
      call_timer_(executor_),
      changed_(executor_) {
  STARLING_CHECK(options_.unlinked_max > options_.dials_max);
}

void LinkTableState::make_parts() {
  const auto weak = weak_from_this();
  const auto send_it = [weak](const Endpoint& to, const wire::Message& message) {
    if (const auto self = weak.lock()) self->send(to, message);
  };
  calls_ = std::make_shared<Calls>(connector_, send_it, [weak](LinkPtr link, wire::Hello remote) {
    if (const auto self = weak.lock()) self->serve_bulk(std::move(link), std::move(remote));
  });
  Relay::Events relay;
  relay.may_relay = [may = events_.may_relay](PeerId id) { return may && may(id); };
  relay.has_link = [weak](PeerId id) {
    const auto self = weak.lock();
    return self && self->by_id_.contains(id);
  };
  relay.send = [send_it](PeerId to, const wire::Message& message) {
    const Endpoint target{to, {}};
    send_it(target, message);
  };
  relay_ = std::make_shared<Relay>(connector_, options_.relay, std::move(relay));
}

Result<Address> LinkTableState::listen(const Address& at) {
  return connector_->listen(at, [weak = weak_from_this()](LinkPtr link, wire::Hello remote) {
    if (const auto self = weak.lock()) self->take_inbound(std::move(link), std::move(remote));
  });
}

void LinkTableState::send(const Endpoint& to, const wire::Message& message) {
  STARLING_CHECK(travels_on_control(message));
  if (closed_) return;
  auto frame = wire::encode_frame(message);
  if (!frame.ok() || !is_receiver(to)) {
    ++counters_->messages_dropped;
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

asio::awaitable<LinkResult<BulkLink>> LinkTableState::dial_bulk(std::shared_ptr<LinkTableState> self,
                                                                Endpoint to) {
  LinkResult<BulkLink> made = LinkError{};
  switch (to.way) {
    case Way::dial:
      made = co_await Connector::connect_to(self->connector_, to, wire::Purpose::bulk, 0);
      break;
    case Way::call:
      made = co_await Calls::dial(self->calls_, to);
      break;
    case Way::relay:
      made = co_await Connector::connect_through(self->connector_, to);
      break;
  }
  if (made.ok()) ++self->counters_->bulk_dialed;
  co_return made;
}

asio::awaitable<void> LinkTableState::shut_down(std::shared_ptr<LinkTableState> self, Duration at_most) {
  const auto deadline = SteadyClock::now() + at_most;
  self->connector_->stop_listening();
  const auto in_time = [&] { return !self->closed_ && SteadyClock::now() < deadline; };
  while (in_time() && self->any_busy()) co_await self->changed_.wait_until(deadline);
  const auto current = self->by_id_;
  for (const auto& [id, connection] : current) self->retire(connection);
  while (in_time() && !self->open_.empty()) co_await self->changed_.wait_until(deadline);
  self->close();
}

void LinkTableState::close() {
  if (std::exchange(closed_, true)) return;
  connector_->close();
  calls_->close();
  relay_->close();
  sweep_.cancel();
  call_timer_.cancel();
  for (const ConnectionPtr& connection : open_) {
    connection->link->close();
    connection->changed.raise();
  }
  for (const auto& [key, route] : routes_) {
    counters_->messages_dropped += route->queue.size();
    route->queue.clear();
    route->connection.reset();
  }
  routes_.clear();
  waiting_.clear();
  calling_.clear();
  by_id_.clear();
  open_.clear();
  changed_.raise();
}

LinkCounters LinkTableState::counters() const {
  LinkCounters all = *counters_;
  all.traffic = transport_.traffic();
  return all;
}

RoutePtr LinkTableState::route_to(const Endpoint& to) {
  RoutePtr& route = routes_[key_of(to)];
  if (!route) route = std::make_shared<Route>();
  route->to = to;
  return route;
}

ConnectionPtr LinkTableState::connection_of(const Route& route) const {
  if (!route.to.id) return route.connection;
  const auto found = by_id_.find(route.to.id);
  return found == by_id_.end() ? nullptr : found->second;
}

void LinkTableState::drop_oldest(Route& route) {
  route.bytes -= route.queue.front().frame.size();
  route.queue.pop_front();
  ++counters_->messages_dropped;
}

void LinkTableState::forget_if_unused(const Endpoint& to) {
  const auto found = routes_.find(key_of(to));
  if (found == routes_.end()) return;
  const Route& route = *found->second;
  if (route.stage == RouteStage::idle && route.queue.empty() && !route.connection) routes_.erase(found);
}

bool LinkTableState::any_busy() const {
  return std::ranges::any_of(routes_,
                             [](const auto& entry) { return entry.second->stage != RouteStage::idle; });
}

void LinkTableState::report(const Endpoint& to, LinkErrorKind kind, const std::string& sentence) {
  if (!closed_ && events_.on_unreachable) events_.on_unreachable(to, kind, sentence);
}

}  // namespace starling::transport
