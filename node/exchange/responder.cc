#include "node/exchange/responder.h"

#include <algorithm>
#include <array>

#include "training/mixing/sides.h"
#include "training/mixing/values.h"
#include "transport/coroutines.h"

namespace starling::node {

using training::Serving;
using transport::Frame;
using transport::LinkPtr;
using wire::RefusalReason;

namespace {

// How often an offer that waits for the core is checked: its initiator may have withdrawn it.
constexpr Duration kWithdrawalCheck = std::chrono::milliseconds(250);
// How often a trainer that was asked for its state is looked at.
constexpr Duration kTrainerCheck = std::chrono::milliseconds(20);

Instant now() { return {Plane::now()}; }

asio::awaitable<bool> send(LinkPtr link, wire::Message message) {
  co_return (co_await transport::write_message(*link, std::move(message))).ok();
}

}  // namespace

// One inbound connection. It serves one exchange or one copy at a time.
struct Responder::Server {
  Server(const asio::any_io_executor& executor, std::uint64_t n, LinkPtr l, wire::Hello hello)
      : number(n), link(std::move(l)), remote(std::move(hello)), decided(executor) {}

  const std::uint64_t number;  // of its answer and of its copy, too
  LinkPtr link;
  wire::Hello remote;
  std::optional<Serving> serving;  // from its offer to its end
  std::optional<gossip::AnswerOffer> decision;
  transport::Signal decided;
  bool giving = false;  // a joiner's copy is under way
  bool closed = false;  // by close(), or it has ended: the Responder, if it still exists, has dropped it

  bool resting() const { return !serving && !giving; }
};

void Responder::serve(LinkPtr link, wire::Hello remote) {
  if (!make_place()) return link->close();
  const std::uint64_t number = next_server_++;
  auto server = std::make_shared<Server>(plane_.executor, number, std::move(link), std::move(remote));
  servers_[number] = server;
  transport::spawn(plane_.executor, [](Responder* self, ServerPtr s) -> asio::awaitable<void> {
    if (s->closed) co_return;  // before it began
    co_await self->run(s);
    if (s->closed) co_return;
    s->closed = true;
    s->link->close();
    self->servers_.erase(s->number);
    self->end_answer(*s);
  }(this, server));
}

// Closes the oldest idle connection if there are too many. False: all are busy.
bool Responder::make_place() {
  if (servers_.size() < plane_.options.servers_max) return true;
  for (auto& [key, server] : servers_) {
    if (!server->resting() || !server->link->is_open()) continue;
    server->link->close();  // its reader ends
    return true;
  }
  return false;
}

void Responder::answer(const gossip::AnswerOffer& answer) {
  for (auto& [key, server] : servers_) {
    const bool waiting = server->serving && !server->serving->accepted() && !server->decision;
    if (!waiting || server->remote.id != answer.from || server->serving->exchange() != answer.exchange)
      continue;
    server->decision = answer;
    server->decided.raise();
    return;
  }
}

void Responder::close() {
  for (auto& [key, server] : std::exchange(servers_, {})) {
    server->closed = true;
    server->link->close();
    server->decided.raise();
  }
}

// Ends what this connection serves, at once: its place is free when this returns.
void Responder::make_room(std::optional<gossip::AnswerBudget::Number> ending) {
  const auto found = ending ? servers_.find(*ending) : servers_.end();
  if (found == servers_.end()) return;
  const ServerPtr server = found->second;
  server->giving = false;
  budget_.copy_ended(server->number);
  server->link->close();  // its coroutine ends
  end_answer(*server);
}

// Reports the end of the current exchange, if there is one.
void Responder::end_answer(Server& server) {
  if (!server.serving) return;
  using gossip::Outcome;
  const Serving serving = *std::exchange(server.serving, std::nullopt);
  budget_.answer_ended(server.number, serving.completed());
  const Outcome unfinished = serving.poisoned() ? Outcome::poisoned : Outcome::aborted;
  plane_.report(gossip::AnswerEnded{server.remote.id, serving.exchange(),
                                    serving.completed() ? Outcome::completed : unfinished});
}

// Serves until the connection closes or fails.
asio::awaitable<void> Responder::run(ServerPtr server) {
  server->link->expires_after(2 * plane_.options.idle_limit);
  while (!server->closed) {
    const auto frame = co_await server->link->read();
    if (server->closed) co_return;
    if (!frame) {
      using Kind = transport::LinkErrorKind;
      const Kind kind = frame.error().kind;
      const bool forgotten = kind == Kind::timed_out && server->resting();
      if (kind != Kind::closed && kind != Kind::closed_by_peer && !forgotten)
        plane_.links.note(frame.error());
      co_return;
    }
    if (server->resting() && server->link->is_outdated()) co_return;  // the initiator dials again
    server->link->expires_after(plane_.options.stall);
    const bool good = co_await take(server, *frame);
    if (server->closed || !good) co_return;
    if (server->resting()) server->link->expires_after(2 * plane_.options.idle_limit);
  }
}

// False: the connection cannot be used any more.
asio::awaitable<bool> Responder::take(ServerPtr server, const Frame& frame) {
  if (frame.kind == wire::FrameKind::chunk) co_return co_await take_chunk(server, frame);
  auto message = transport::message_in(*server->link, frame);
  if (!message) {
    plane_.links.note(message.error());
    co_return false;
  }
  if (const auto* offer = std::get_if<wire::ExchangeOffer>(&*message))
    co_return co_await take_offer(server, *offer);
  if (const auto* request = std::get_if<wire::StateRequest>(&*message))
    co_return co_await give_state(server, *request);
  co_return false;  // no other message belongs here
}

asio::awaitable<bool> Responder::take_offer(ServerPtr server, wire::ExchangeOffer offer) {
  end_answer(*server);  // a new offer means that the initiator gave up the exchange before
  if (server->closed) co_return false;
  wire::ExchangeRefusal refusal{offer.exchange, RefusalReason::not_ready, 0};
  if (plane_.mixer == nullptr) co_return co_await send(server->link, refusal);
  const training::CellGrid& grid = plane_.mixer->grid();
  if (offer.fingerprint != plane_.fingerprint || offer.arena_floats != grid.arena_floats ||
      offer.cell_floats != grid.cell_floats) {
    refusal.reason = RefusalReason::wrong_model;
    co_return co_await send(server->link, refusal);
  }
  const PeerId initiator = server->remote.id;
  make_room(budget_.end_for_offer(initiator));
  if (server->closed) co_return false;
  server->serving.emplace(offer.exchange);
  auto decision = co_await decision_on(server, offer);
  if (decision && !decision->accept && decision->reason == RefusalReason::busy) {
    if (const auto ending = budget_.end_for_refused(initiator, now())) {
      make_room(ending);
      decision = co_await decision_on(server, offer);
    }
  }
  if (!decision) co_return false;
  server->link->expires_after(plane_.options.stall);
  if (!decision->accept) {
    server->serving.reset();
    refusal.reason = decision->reason;
    refusal.round = decision->terms.round;
    co_return co_await send(server->link, refusal);
  }
  make_room(budget_.end_for_offer(initiator));
  if (server->closed) co_return false;  // by the event's handler
  const training::Session session =
      training::session_under(decision->terms, offer.exchange, initiator.value, initiator.value);
  server->serving->accept(*plane_.mixer, session);
  budget_.answer_began(server->number, initiator, now());
  if (server->serving->completed()) end_answer(*server);  // an exchange of zero cells
  if (server->closed) co_return false;                    // by the event's handler
  // The chunks that follow a withdrawn offer would be mixed on this side only.
  co_return !server->link->hung_up();
}

// Asks the core. nullopt: the initiator withdrew the offer, or the server was closed.
asio::awaitable<std::optional<gossip::AnswerOffer>> Responder::decision_on(ServerPtr server,
                                                                           wire::ExchangeOffer offer) {
  server->decision.reset();
  server->link->expires_never();  // this peer causes the delay
  plane_.report(gossip::ExchangeOffered{server->remote.id, offer.exchange, offer.round});
  while (!server->decision && !server->closed) {
    co_await server->decided.wait_until(std::chrono::steady_clock::now() + kWithdrawalCheck);
    if (server->closed || !server->link->is_open()) co_return std::nullopt;
    if (!server->decision && server->link->hung_up()) co_return std::nullopt;
  }
  if (server->closed) co_return std::nullopt;
  co_return std::exchange(server->decision, std::nullopt);
}

asio::awaitable<bool> Responder::take_chunk(ServerPtr server, const Frame& frame) {
  const auto& head = frame.chunk;
  const bool expected = server->serving && server->serving->accepted() &&
                        head.exchange == server->serving->exchange() && head.kind == wire::ChunkKind::offer;
  if (!expected) co_return true;  // left over from an exchange that was refused or has ended
  const training::Parcel chunk = parcel_of(frame);
  Room room = plane_.rooms.take(training::Mixer::answer_room(chunk));
  budget_.answer_moved(server->number, now(), frame.body.size());
  const auto reply = server->serving->take(chunk, room.bytes());
  if (!reply) {
    plane_.rooms.give(std::move(room));
    ++plane_.counters.chunks_refused;
    if (reply.error().fault == training::MixFault::own_replica) plane_.diverge();
    co_return false;  // the following chunks would be rejected too
  }
  alignas(64) std::array<std::byte, wire::kChunkPrefixBytes> prefix;
  transport::write_prefix(*server->link, head_of(*reply, head.exchange, wire::ChunkKind::reply),
                          reply->values, prefix);
  if (server->serving->completed()) end_answer(*server);
  if (server->closed) co_return false;  // by the event's handler
  const bool good = (co_await server->link->write(prefix, reply->values)).ok();
  if (!server->closed) plane_.rooms.give(std::move(room));
  co_return good;
}

// ---- a joiner's first copy ----

// Why this peer cannot send its parameters now; nullopt if it can.
std::optional<wire::Refusal> Responder::refusal_of(const wire::StateRequest& request) const {
  if (plane_.mixer == nullptr || plane_.copying || plane_.diverged)
    return wire::Refusal{RefusalReason::not_ready, "this peer has no parameters to send now"};
  if (request.fingerprint != plane_.fingerprint)
    return wire::Refusal{RefusalReason::wrong_model, "this peer's model has another layout"};
  const auto fewest = std::min<std::uint64_t>(plane_.options.copied_floats_min, plane_.arena->size());
  if (request.chunk_floats < fewest || request.chunk_floats > wire::kChunkFloatsMax) {
    return wire::Refusal{RefusalReason::malformed,
                         "a chunk holds " + std::to_string(fewest) + " to 2^18 floats"};
  }
  if (!budget_.may_copy())
    return wire::Refusal{RefusalReason::busy, "this peer already sends its parameters to enough others"};
  return std::nullopt;
}

asio::awaitable<bool> Responder::give_state(ServerPtr server, wire::StateRequest request) {
  make_room(budget_.end_for_copy(server->remote.id, now()));
  if (auto refusal = refusal_of(request)) co_return co_await send(server->link, std::move(*refusal));
  server->giving = true;
  budget_.copy_began(server->number, server->remote.id, now());
  const training::CellGrid grid{plane_.arena->size(), request.chunk_floats};
  const std::uint64_t first = std::min<std::uint64_t>(request.first_chunk, grid.count());
  const TrainerState& state = plane_.trainer_state;
  const bool with_trainers =
      state.fingerprint != 0 && request.trainer_state == state.fingerprint && state.ask();
  const wire::StateHead head{grid.arena_floats, grid.count() - first, with_trainers ? state.words() : 0};
  bool good = co_await send(server->link, head);
  if (good && server->giving) good = co_await give_chunks(server, grid, first);
  if (good && server->giving && with_trainers) good = co_await give_trainer_state(server, grid, head);
  server->giving = false;
  if (server->closed) co_return false;
  budget_.copy_ended(server->number);
  co_return good;
}

// False: the connection cannot be used any more.
asio::awaitable<bool> Responder::give_chunk(ServerPtr server, std::uint64_t offset, Bytes values) {
  alignas(64) std::array<std::byte, wire::kChunkPrefixBytes> prefix;
  transport::write_prefix(*server->link,
                          {.offset = offset,
                           .floats = static_cast<std::uint32_t>(values.size() / sizeof(float)),
                           .kind = wire::ChunkKind::state},
                          values, prefix);
  const bool good = (co_await server->link->write(prefix, values)).ok();
  if (server->closed) co_return false;
  server->link->expires_after(plane_.options.stall);
  budget_.copy_moved(server->number, now(), values.size());
  co_return good;
}

// From the first one to the last. False: the connection cannot be used any more.
asio::awaitable<bool> Responder::give_chunks(ServerPtr server, training::CellGrid grid, std::size_t first) {
  for (std::size_t chunk = first; chunk < grid.count(); ++chunk) {
    if (server->closed || !server->giving) co_return false;
    Room room = plane_.rooms.take(sizeof(float) * grid.floats(chunk));
    const std::span values(reinterpret_cast<float*>(room.bytes().data()), grid.floats(chunk));
    if (!(plane_.arena->read(grid.offset(chunk), values) <= training::kLargestMagnitude)) {
      plane_.diverge();
      co_return false;
    }
    const bool good = co_await give_chunk(server, grid.offset(chunk), std::as_bytes(values));
    if (server->closed) co_return false;
    plane_.rooms.give(std::move(room));
    if (!good) co_return false;
  }
  co_return true;
}

// After the parameters, with offsets that continue theirs. `head` was sent before them.
asio::awaitable<bool> Responder::give_trainer_state(ServerPtr server, training::CellGrid grid,
                                                    wire::StateHead head) {
  const TrainerState& state = plane_.trainer_state;
  transport::Signal never(plane_.executor);
  const auto deadline = std::chrono::steady_clock::now() + plane_.options.trainer_patience;
  auto sign = std::chrono::steady_clock::now() + plane_.options.sign_of_life;
  while (!state.is_answered()) {
    const auto time = std::chrono::steady_clock::now();
    if (time >= deadline) {
      wire::Refusal refusal{RefusalReason::not_ready, "the donor's trainer makes no step"};
      co_return co_await send(server->link, std::move(refusal));
    }
    if (time >= sign) {
      if (!co_await send(server->link, head) || server->closed) co_return false;
      sign = time + plane_.options.sign_of_life;
    }
    server->link->expires_never();  // this peer causes the delay
    const auto next = std::min({deadline, sign, time + kTrainerCheck});
    co_await never.wait_until(next);
    if (server->closed || !server->giving || !server->link->is_open()) co_return false;
    budget_.copy_moved(server->number, now(), 0);
  }
  const training::CellGrid parts{state.words(), grid.cell_floats};
  for (std::size_t part = 0; part < parts.count(); ++part) {
    const auto values =
        state.given.subspan(sizeof(float) * parts.offset(part), sizeof(float) * parts.floats(part));
    if (!co_await give_chunk(server, grid.arena_floats + parts.offset(part), values)) co_return false;
  }
  co_return true;
}

}  // namespace starling::node
