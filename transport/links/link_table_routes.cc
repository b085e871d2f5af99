// Routes: messages that wait, dials, calls, and writing.
#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "transport/links/link_table_state.h"
#include "wire/codec.h"

namespace starling::transport {
namespace {

using RouteClock = std::chrono::steady_clock;

}  // namespace

void LinkTableState::advance(const RoutePtr& route) {
  if (closed_) return;
  if (route->queue.empty()) {
    forget_if_unused(route->to);
    trim(nullptr);
    changed_.raise();
  } else if (connection_of(*route)) {
    route->stage = RouteStage::writing;
    spawn(executor_, write(shared_from_this(), route));
  } else if (route->to.way != Way::dial) {
    call(route);
  } else if (dialing_ < options_.dials_max) {
    route->stage = RouteStage::dialing;
    ++dialing_;
    spawn(executor_, dial(shared_from_this(), route));
  } else {
    route->stage = RouteStage::waiting;
    waiting_.push_back(route);
    if (dialing_ + waiting_.size() > options_.unlinked_max) give_up_longest_waiting();
  }
}

void LinkTableState::give_up_longest_waiting() {
  const RoutePtr route = waiting_.front();
  waiting_.pop_front();
  route->stage = RouteStage::idle;
  while (!route->queue.empty()) drop_oldest(*route);
  forget_if_unused(route->to);
}

void LinkTableState::dial_waiting() {
  while (!closed_ && !waiting_.empty() && dialing_ < options_.dials_max) {
    const RoutePtr route = waiting_.front();
    waiting_.pop_front();
    route->stage = RouteStage::idle;
    advance(route);
  }
}

void LinkTableState::serve_waiting(const ConnectionPtr& connection) {
  for (std::list<RoutePtr>* all : {&waiting_, &calling_}) {
    for (auto next = all->begin(); next != all->end();) {
      const RoutePtr route = *next;
      if (connection_of(*route) != connection) {
        ++next;
        continue;
      }
      next = all->erase(next);
      route->stage = RouteStage::idle;
      advance(route);
    }
  }
}

void LinkTableState::call(const RoutePtr& route) {
  const Endpoint to = route->to;
  route->stage = RouteStage::calling;
  route->deadline = RouteClock::now() + connector_->answer_limit();
  calling_.push_back(route);
  ++counters_->calls_sent;
  arm_calls();
  send(helper_of(to), wire::Call{to.id, connector_->id(), wire::Purpose::control, call_number()});
}

void LinkTableState::arm_calls() {
  if (calling_.empty()) return;
  const bool full = calling_.size() > options_.calls_max;
  call_timer_.expires_at(full ? RouteClock::now() : calling_.front()->deadline);
  call_timer_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
    const auto self = weak.lock();
    if (!error && self && !self->closed_) self->end_calls();
  });
}

void LinkTableState::end_calls() {
  const auto now = RouteClock::now();
  const auto over = [&] {
    return calling_.size() > options_.calls_max || (!calling_.empty() && calling_.front()->deadline <= now);
  };
  while (!closed_ && over()) {
    const RoutePtr route = calling_.front();
    calling_.pop_front();
    ++counters_->calls_unanswered;
    const LinkError error = unanswered(route->to);
    counters_->note(error.kind);
    give_up(route, error);
  }
  if (!closed_) arm_calls();
}

void LinkTableState::give_up(const RoutePtr& route, const LinkError& error) {
  const Endpoint to = route->to;
  route->stage = RouteStage::idle;
  while (!route->queue.empty()) drop_oldest(*route);
  forget_if_unused(to);
  changed_.raise();
  report(to, error.kind, error.message);
}

asio::awaitable<void> LinkTableState::write(std::shared_ptr<LinkTableState> self, RoutePtr route) {
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

asio::awaitable<void> LinkTableState::dial(std::shared_ptr<LinkTableState> self, RoutePtr route) {
  const Endpoint to = route->to;
  const std::vector<Address> at = addresses_of(to);
  const DialTime time(self->options_.dial_limit);
  std::optional<LinkError> error;
  if (at.empty()) self->counters_->note((error = no_address(to))->kind);
  for (std::size_t k = 0; k < at.size() && !self->closed_; ++k) {
    const Duration share = time.share(at.size() - k);
    auto dialed = co_await Connector::connect(self->connector_, at[k], wire::Purpose::control, 0, share);
    if (self->closed_) break;
    error = self->take_dialed(to.id, at[k], std::move(dialed));
    if (!error || self->connection_of(*route)) break;
  }
  --self->dialing_;
  if (self->closed_) co_return;
  if (error) {
    if (!self->connection_of(*route)) {  // the receiver may have dialed this peer meanwhile
      while (!route->queue.empty()) self->drop_oldest(*route);
      self->report(to, error->kind, error->message);
    }
  }
  self->dial_waiting();
  route->stage = RouteStage::writing;
  co_await write(self, route);  // at once, so that the link can make room for others
}

std::optional<LinkError> LinkTableState::take_dialed(PeerId expected, const Address& at,
                                                     LinkResult<BulkLink> dialed) {
  if (!dialed.ok()) return dialed.error();
  ++counters_->links_dialed;
  if (events_.on_dialed) events_.on_dialed(at);
  std::optional<LinkError> error;
  if (expected && dialed->remote.id != expected) {
    error = other_peer(expected, at, dialed->remote);
    counters_->note(error->kind);
  }
  const auto connection =
      std::make_shared<ControlLink>(executor_, std::move(dialed->link), std::move(dialed->remote), true);
  connection->dialed_at.insert(at);
  adopt(connection);
  return error;
}

asio::awaitable<void> LinkTableState::write_next(RoutePtr route, ConnectionPtr connection) {
  Waiting waiting = std::move(route->queue.front());
  route->queue.pop_front();
  route->bytes -= waiting.frame.size();

  connection->writing = true;
  connection->link->expires_after(options_.write_limit);
  const LinkStatus written = co_await connection->link->write(waiting.frame);
  connection->writing = false;
  connection->changed.raise();
  connection->used = RouteClock::now();
  if (written.ok()) {
    ++counters_->messages_sent;
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
    ++counters_->messages_dropped;
  } else {
    waiting.tried = true;
    route->bytes += waiting.frame.size();
    route->queue.push_front(std::move(waiting));
  }
}

}  // namespace starling::transport
