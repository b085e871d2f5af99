#include "transport/dial/relay.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <variant>

#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "transport/coroutines.h"
#include "transport/dial/calls.h"

namespace starling::transport {
namespace {

using RelayClock = std::chrono::steady_clock;
using wire::RefusalReason;

Duration relay_now() { return RelayClock::now().time_since_epoch(); }

asio::awaitable<void> wait_until(asio::any_io_executor executor, Duration instant) {
  asio::steady_timer timer(executor, RelayClock::time_point(instant));
  asio::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

}  // namespace

// A request, and what becomes of it.
struct Relay::Circuit {
  Circuit(const asio::any_io_executor& executor, LinkPtr link, PeerId id)
      : requester(id), near(std::move(link)), changed(executor) {}

  PeerId requester, target;
  std::uint64_t number = 0;  // of the call; 0: the target is not waited for
  LinkPtr near, far;         // the requester's connection, and the target's
  bool open = false;
  int ended = 0;         // directions
  Duration deadline{0};  // when it has stalled
  Signal changed;
};

Relay::Relay(std::shared_ptr<Connector> connector, RelayOptions options, Events events)
    : connector_(std::move(connector)),
      options_(options),
      events_(std::move(events)),
      counters_(connector_->counters().relay),
      pace_(std::max(1.0, options.bits_per_second), options.burst) {}

void Relay::take(LinkPtr link, wire::Hello remote) {
  if (remote.call != 0) return take_target(std::move(link), remote);
  if (options_.bits_per_second <= 0)
    return connector_->dismiss(std::move(link), {RefusalReason::not_allowed, "this peer does not relay"});
  // Only members take places.
  auto refusal = objection_to(remote.id);
  if (!refusal) refusal = lack_of_room(remote.id);
  if (refusal) return refuse_request(std::move(link), *refusal);
  const auto circuit = std::make_shared<Circuit>(connector_->executor(), std::move(link), remote.id);
  circuits_.insert(circuit);
  spawn(connector_->executor(), serve(shared_from_this(), circuit));
}

std::optional<wire::Refusal> Relay::lack_of_room(PeerId requester) const {
  const auto count = [&](const auto& counts) {
    return static_cast<std::size_t>(std::ranges::count_if(circuits_, counts));
  };
  const auto too_many = [](std::size_t limit, const std::string& what) {
    return wire::Refusal{RefusalReason::busy, "this peer relays " + std::to_string(limit) + " " + what +
                                                  " already, and no more are allowed"};
  };
  if (circuits_.size() >= options_.circuits_max) return too_many(options_.circuits_max, "circuits");
  if (count([&](const CircuitPtr& c) { return c->requester == requester; }) >= options_.per_requester_max)
    return too_many(options_.per_requester_max, "circuits for " + to_string(requester));
  if (count([](const CircuitPtr& c) { return !c->open; }) >= options_.waiting_max)
    return wire::Refusal{RefusalReason::busy, std::to_string(options_.waiting_max) +
                                                  " circuits wait for their target at this peer already"};
  return std::nullopt;
}

std::optional<wire::Refusal> Relay::objection_to(PeerId requester) const {
  if (events_.may_relay(requester)) return std::nullopt;
  return wire::Refusal{
      RefusalReason::not_allowed,
      "this peer relays only between members of its swarm, and " + to_string(requester) + " is not one"};
}

std::optional<wire::Refusal> Relay::objection_to(const Circuit& circuit) const {
  if (circuit.target == circuit.requester || circuit.target == connector_->id())
    return wire::Refusal{RefusalReason::not_allowed, "a circuit needs two peers besides the relay"};
  if (!events_.may_relay(circuit.target) || !events_.has_link(circuit.target)) {
    return wire::Refusal{RefusalReason::not_ready,
                         "this peer has no connection with " + to_string(circuit.target)};
  }
  return std::nullopt;
}

void Relay::refuse_request(LinkPtr link, const wire::Refusal& refusal) {
  ++counters_.circuits_refused;
  connector_->dismiss(std::move(link), refusal);
}

// The connection of a target that was called.
void Relay::take_target(LinkPtr link, const wire::Hello& remote) {
  const auto found =
      std::ranges::find_if(circuits_, [&](const CircuitPtr& c) { return c->number == remote.call; });
  if (found == circuits_.end() || (*found)->target != remote.id) {
    ++counters_.answers_refused;
    return connector_->reject(std::move(link), RefusalReason::malformed, LinkErrorKind::refused,
                              "no request for a circuit with this number waits for " + to_string(remote.id));
  }
  (*found)->far = std::move(link);
  (*found)->number = 0;
  (*found)->changed.raise();
}

asio::awaitable<void> Relay::serve(std::shared_ptr<Relay> self, CircuitPtr circuit) {
  const auto refusal = co_await arrange(self, circuit);
  if (refusal) {
    self->circuits_.erase(circuit);
    self->refuse_request(circuit->near, *refusal);
    co_return;
  }
  if (!circuit->far) co_return self->end(circuit);
  for (const LinkPtr& link : {circuit->near, circuit->far}) {
    link->limit_body(wire::kRelayedBodyBytesMax);
    link->accept_relayed();
  }
  circuit->open = true;
  ++self->counters_.circuits;
  ++self->counters_.circuits_opened;
  self->touch(*circuit, Duration{0});
  spawn(self->connector_->executor(), pass(self, circuit, circuit->far, circuit->near));
  co_await pass(self, circuit, circuit->near, circuit->far);
  while (circuit->ended < 2) co_await circuit->changed.wait();
  --self->counters_.circuits;
  self->end(circuit);
}

// Reads the request and gets the target's connection. Returns why not; without a refusal and without a
// connection of the target, the requester's connection has failed.
asio::awaitable<std::optional<wire::Refusal>> Relay::arrange(std::shared_ptr<Relay> self,
                                                             CircuitPtr circuit) {
  const LinkPtr link = circuit->near;
  link->expires_after(self->connector_->options().handshake_limit);
  auto message = co_await read_message(*link);
  link->expires_never();
  if (!message.ok()) {
    const LinkErrorKind kind = message.error().kind;
    if (kind != LinkErrorKind::closed_by_peer && kind != LinkErrorKind::closed)
      self->connector_->counters().note(kind);
    co_return std::nullopt;
  }
  const auto* request = std::get_if<wire::CircuitRequest>(&*message);
  if (request == nullptr)
    co_return wire::Refusal{RefusalReason::malformed, "a request for a circuit is expected here"};
  circuit->target = request->target;
  if (auto objection = self->objection_to(*circuit)) co_return objection;
  co_await wait_for_target(self, circuit);
  if (!circuit->far) {
    co_return wire::Refusal{RefusalReason::not_ready,
                            to_string(circuit->target) + " did not connect in time"};
  }
  wire::Message agreed = wire::Circuit{circuit->target};
  link->expires_after(self->connector_->options().handshake_limit);
  const LinkStatus written = co_await write_message(*link, std::move(agreed));
  if (!written.ok()) std::exchange(circuit->far, nullptr)->close();
  co_return std::nullopt;
}

asio::awaitable<void> Relay::wait_for_target(std::shared_ptr<Relay> self, CircuitPtr circuit) {
  circuit->number = call_number();
  self->events_.send(circuit->target,
                     wire::Call{circuit->target, circuit->requester, wire::Purpose::relay, circuit->number});
  const auto deadline = RelayClock::now() + self->connector_->answer_limit();
  while (!circuit->far && circuit->near->is_open() && RelayClock::now() < deadline)
    co_await circuit->changed.wait_until(deadline);
  circuit->number = 0;
}

// Passes one direction on until it ends.
asio::awaitable<void> Relay::pass(std::shared_ptr<Relay> self, CircuitPtr circuit, LinkPtr from, LinkPtr to) {
  const auto checksum = to->authenticates() ? wire::Checksum::none : wire::Checksum::computed;
  LinkStatus status = Done{};
  while (status.ok()) {
    const auto frame = co_await from->read();
    if (!frame.ok()) {
      status = frame.error();
      break;
    }
    if (frame->kind != wire::FrameKind::relayed) {
      status = LinkError{{"only relayed frames are passed on"}, LinkErrorKind::malformed};
      break;
    }
    const std::size_t bytes = wire::kFrameHeaderBytes + frame->body.size();
    const Duration now = relay_now(), begin = self->pace_.reserve(now, bytes);
    self->touch(*circuit, std::max(begin - now, Duration{0}));
    if (begin > now) co_await wait_until(self->connector_->executor(), begin);
    std::array<std::byte, wire::kFrameHeaderBytes> header;
    wire::write_relayed_header(frame->body, header, checksum);
    status = co_await to->write(header, frame->body);
    if (!status.ok()) break;
    self->counters_.bytes += bytes;
    self->touch(*circuit, Duration{0});
  }
  if (status.error().kind == LinkErrorKind::closed_by_peer) {
    to->finish();
  } else {
    from->close();
    to->close();
  }
  ++circuit->ended;
  circuit->changed.raise();
}

// Something moved, or will at the latest after `wait`, which is not the fault of the two peers.
void Relay::touch(Circuit& circuit, Duration wait) const {
  const Duration now = relay_now();
  circuit.deadline = std::max(circuit.deadline, now + wait + options_.stall_limit);
  for (const LinkPtr& link : {circuit.near, circuit.far}) link->expires_after(circuit.deadline - now);
}

void Relay::end(const CircuitPtr& circuit) {
  circuit->near->close();
  if (circuit->far) circuit->far->close();
  circuits_.erase(circuit);
}

void Relay::close() {
  for (const CircuitPtr& circuit : circuits_) {
    circuit->near->close();
    if (circuit->far) circuit->far->close();
    circuit->changed.raise();
  }
}

}  // namespace starling::transport
