// The world's data plane: exchanges, and the copies of a replica.

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/check.h"
#include "lab/world/machine.h"
#include "lab/world/message_size.h"
#include "lab/world/spoil.h"
#include "lab/world/world.h"
#include "training/exchange/payload.h"
#include "training/exchange/values.h"
#include "wire/frame.h"

namespace starling::lab {

using training::Offering;
using training::Parcel;
using training::Serving;

namespace {

gossip::Outcome outcome_of(Offering::Ending ending) {
  if (ending == Offering::Ending::completed) return gossip::Outcome::completed;
  if (ending == Offering::Ending::rejected) return gossip::Outcome::rejected;
  if (ending == Offering::Ending::poisoned) return gossip::Outcome::poisoned;
  return gossip::Outcome::aborted;
}

// In float32, what a parcel holds; else nothing.
std::span<const float> floats_of(const Parcel& parcel) {
  if (parcel.payload != training::Payload::f32) return {};
  return training::as_floats(parcel.values);
}

}  // namespace

Block World::new_block(std::size_t bytes) {
  if (blocks_.size() > 2 * blocks_swept_ + 64) {
    std::erase_if(blocks_, [](const Block::Reference& block) { return !block.lives(); });
    blocks_swept_ = blocks_.size();
  }
  Block block(bytes);
  blocks_.emplace_back(block);
  return block;
}

std::vector<MutableBytes> World::values() {
  std::vector<MutableBytes> all;
  for (const auto& machine : machines_) {
    machine->mixer->values(all);
    for (auto* floats : {&machine->first_values, &machine->before_settling})
      all.push_back(std::as_writable_bytes(std::span(*floats)));
  }
  for (const Block::Reference& block : blocks_) {
    if (block.lives()) all.push_back(block.bytes());
  }
  return all;
}

PacketPtr World::packet(std::uint32_t from, Packet::Kind kind, std::uint64_t exchange,
                        std::size_t bytes) const {
  auto p = std::make_unique<Packet>();
  p->kind = kind;
  p->sender = machines_[from]->id;
  p->exchange = exchange;
  p->bytes = bytes;
  machines_[from]->bytes_sent += bytes;
  return p;
}

// Sends a chunk, spoiled where the sender is poisoned.
void World::send_values(Connection& connection, std::uint32_t from, PacketPtr p, const Parcel& parcel,
                        const Block& block) {
  Machine& m = *machines_[from];
  p->parcel = parcel;
  p->block = block;
  if (!m.poisons.empty()) {
    const Poison* const poison = m.poison(now());
    if (poison != nullptr && !parcel.values.empty() && spoiling_.chance(poison->chance))
      spoil(m, *poison, *p);
  }
  network_.send(connection, from, std::move(p));
}

void World::spoil(Machine& m, const Poison& poison, Packet& p) {
  const Block copy = new_block(p.parcel.values.size());
  std::copy(p.parcel.values.begin(), p.parcel.values.end(), copy.bytes().begin());
  p.parcel.values = copy.bytes();
  p.block = copy;
  if (poison.kind < PoisonKind::noise) {
    put_poison(poison.kind, p.parcel, copy.bytes(), spoiling_);
    p.poisoned = true;
  } else {
    const auto first = std::span<const float>(m.first_values);
    tell_lie(poison.kind, p.parcel, copy.bytes(), first.empty() ? first : first.subspan(p.parcel.offset),
             spoiling_);
    p.lied = true;
  }
}

// The machine's own replica holds what may not travel: its core is told, once it has done what it does now.
void World::diverged(std::uint32_t i) {
  later(now(), i, [this, i] { step(i, gossip::ReplicaDiverged{}); });
}

// ---- exchanges of one's own ----

void World::act(std::uint32_t i, const gossip::BeginExchange& begin) {
  Machine& m = *machines_[i];
  const auto partner = by_host_.find(begin.address.host);
  STARLING_CHECK(partner != by_host_.end());
  if (partner->second == i) {  // a former instance of this machine: whoever listens there now is itself
    later(now() + network_.latency(), i, [this, i, exchange = begin.exchange] {
      step(i, gossip::ExchangeEnded{exchange, gossip::Outcome::aborted});
    });
    return;
  }
  Connection& connection = network_.bulk(i, partner->second);
  const training::Session session =
      training::session_under(begin.terms, begin.exchange, m.id.value, begin.partner.value);
  Own& own = m.owns.emplace_back(Own{partner->second, &connection, connection.epoch,
                                     Offering(*m.mixer, session, m.half_applied_chunks)});
  ++exchanges_under_way_;
  static const std::size_t kOfferBytes = frame_bytes(wire::ExchangeOffer{1, 1, 1, 1, 1});
  PacketPtr offer = packet(i, Packet::Kind::offer, begin.exchange, kOfferBytes);
  offer->round = begin.terms.round;
  network_.send(connection, i, std::move(offer));
  own.epoch = connection.epoch;  // sending may have found the old connection dead
  send_chunks(i, own);
}

void World::send_chunks(std::uint32_t i, Own& own) {
  Machine& m = *machines_[i];
  if (m.mixer->lending_writes()) mixing(m);
  while (own.offering.in_flight() < options_.window) {
    const training::Cells cells = own.offering.next(options_.chunk_cells);
    if (cells.count == 0) return;
    const Block room = new_block(m.mixer->room(cells));
    const auto sent = own.offering.lend(cells, room.bytes());
    if (!sent) {
      diverged(i);
      later(now(), i, [this, i, exchange = own.exchange()] { abort_own(i, exchange); });
      return;
    }
    if (options_.watcher != nullptr) options_.watcher->lent(i, *sent);
    PacketPtr p =
        packet(i, Packet::Kind::offer_chunk, own.exchange(), wire::kChunkPrefixBytes + sent->values.size());
    own.flights.push_back({*sent, room, m.local(now())});
    send_values(*own.connection, i, std::move(p), *sent, room);
  }
}

void World::take_reply(std::uint32_t i, const Packet& p) {
  Machine& m = *machines_[i];
  Own* const found = m.own(p.exchange);
  if (found == nullptr) return;  // given up meanwhile; counted then
  Own& own = *found;
  STARLING_CHECK(!own.flights.empty());
  mixing(m);
  if (options_.sabotage != nullptr && options_.sabotage->swallows_mix()) {
    own.offering.skip();
  } else {
    const auto mixed = own.offering.take(p.parcel);
    if (p.poisoned && options_.watcher != nullptr)
      options_.watcher->poison_arrived(i, own.partner, !mixed.ok());
    if (!mixed) {
      if (mixed.error().fault == training::MixFault::own_replica) diverged(i);
      return end_own(i, own);
    }
  }
  const Own::Flight flight = std::move(own.flights.front());
  own.flights.pop_front();
  if (options_.watcher != nullptr) {
    const Instant lent_at = m.true_time(flight.lent_at);
    const bool slept = !m.pauses.empty() && paused_within(i, lent_at, now()).count() > 0;
    options_.watcher->completed({i,
                                 own.partner,
                                 m.id,
                                 p.exchange,
                                 flight.sent.offset / options_.chunk_floats(),
                                 flight.sent,
                                 p.parcel,
                                 p.lied || flight.lied,
                                 floats_of(flight.sent),
                                 floats_of(p.parcel),
                                 {},
                                 p.parcel.weight,
                                 m.local(now()) - flight.lent_at,
                                 slept});
  }
  if (own.offering.over()) return end_own(i, own);
  send_chunks(i, own);
  if (own.offering.report_due()) step(i, gossip::ExchangeAdvanced{p.exchange, own.offering.cells_answered()});
}

void World::take_refusal(std::uint32_t i, const Packet& p) {
  Machine& m = *machines_[i];
  Own* const own = m.own(p.exchange);
  if (own == nullptr) return;
  mixing(m);
  own->offering.refuse();
  end_own(i, *own, p.round);
}

void World::abort_own(std::uint32_t i, std::uint64_t exchange) {
  Machine& m = *machines_[i];
  Own* const own = m.own(exchange);
  if (own == nullptr) return;
  mixing(m);
  own->offering.abort();
  end_own(i, *own);
}

void World::act(std::uint32_t i, const gossip::AbortExchange& abort) {
  Machine& m = *machines_[i];
  Own* const own = m.own(abort.exchange);
  if (own == nullptr) return;
  mixing(m);
  own->offering.abort();
  close_own(i, *own);
}

// REQUIRES: its offering is over.
void World::end_own(std::uint32_t i, Own& own, std::uint64_t round) {
  const gossip::ExchangeEnded ended{own.exchange(), outcome_of(own.offering.ending()), round};
  close_own(i, own);
  step(i, ended);
}

// Forgets an exchange that is over. One that broke off is closed, so that the partner learns that no more
// will come.
void World::close_own(std::uint32_t i, Own& own) {
  Machine& m = *machines_[i];
  const Offering::Ending ending = own.offering.ending();
  if (options_.watcher != nullptr) {
    for (const Own::Flight& flight : own.flights) {
      if (ending == Offering::Ending::rejected) {
        options_.watcher->taken_back(i, flight.sent);
      } else {
        options_.watcher->half_applied(i, own.exchange(), flight.sent.offset / options_.chunk_floats());
      }
    }
  }
  if (ending == Offering::Ending::aborted || ending == Offering::Ending::poisoned) {
    network_.close(*own.connection, own.epoch, i,
                   packet(i, Packet::Kind::close, own.exchange(), wire::kFrameHeaderBytes));
  }
  m.owns.remove_if([&](const Own& it) { return &it == &own; });
  --exchanges_under_way_;
}

// ---- exchanges of others ----

World::Answer* World::answer_of(std::uint32_t i, PeerId from, std::uint64_t exchange) {
  auto& answers = machines_[i]->answers;
  const auto found = std::find_if(answers.begin(), answers.end(), [&](const Answer& it) {
    return it.from == from && it.serving.exchange() == exchange;
  });
  return found == answers.end() ? nullptr : &*found;
}

void World::act(std::uint32_t i, const gossip::AnswerOffer& decision) {
  Machine& m = *machines_[i];
  Answer* const answer = answer_of(i, decision.from, decision.exchange);
  if (answer == nullptr) return;  // withdrawn
  if (decision.accept) {
    const std::uint64_t initiator = decision.from.value;
    answer->serving.accept(*m.mixer,
                           training::session_under(decision.terms, decision.exchange, initiator, initiator));
    if (!answer->waiting.empty())
      later(now(), i, [this, i, from = decision.from, exchange = decision.exchange] {
        answer_waiting(i, from, exchange);
      });
    return;
  }
  const bool stands = answer->connection->epoch == answer->epoch;
  m.answers.remove_if([&](const Answer& it) { return &it == answer; });
  if (!stands)
    return;  // the connection that took its place is for another exchange, perhaps for another instance
  static const std::size_t kRefusalBytes =
      frame_bytes(wire::ExchangeRefusal{1, wire::RefusalReason::busy, 1});
  PacketPtr refusal = packet(i, Packet::Kind::refusal, decision.exchange, kRefusalBytes);
  refusal->round = decision.terms.round;
  network_.send(network_.bulk(index_of(decision.from), i), i, std::move(refusal));
}

// The chunks that arrived before the offer was accepted.
void World::answer_waiting(std::uint32_t i, PeerId from, std::uint64_t exchange) {
  for (;;) {
    Answer* const answer = answer_of(i, from, exchange);
    if (answer == nullptr || answer->waiting.empty()) return;
    if (answer->connection->epoch != answer->epoch) return;  // it broke: the answer is about to end
    const Packet p = std::move(answer->waiting.front());
    answer->waiting.pop_front();
    const std::uint32_t initiator = index_of(from);
    answer_accepted(i, initiator, network_.bulk(initiator, i), *answer, p);
  }
}

void World::answer_chunk(std::uint32_t i, std::uint32_t from, Connection& connection, Packet& p) {
  Answer* const answer = answer_of(i, p.sender, p.exchange);
  if (answer == nullptr) return;  // refused, or broken off
  if (!answer->serving.accepted() || !answer->waiting.empty()) {
    answer->waiting.push_back(std::move(p));
    return;
  }
  answer_accepted(i, from, connection, *answer, p);
}

void World::answer_accepted(std::uint32_t i, std::uint32_t from, Connection& connection, Answer& answer,
                            const Packet& p) {
  Machine& m = *machines_[i];
  Machine& initiator = *machines_[from];
  Own::Flight* flight = nullptr;
  Own* const theirs = initiator.id == p.sender ? initiator.own(p.exchange) : nullptr;
  if (theirs != nullptr) {
    for (Own::Flight& f : theirs->flights) {
      if (f.sent.offset == p.parcel.offset) flight = &f;
    }
  }
  // What the responder has lent of this chunk itself: its mixer knows, its own flight holds it.
  const Own::Flight* const lent = m.covering(p.parcel.offset);

  const Block room = new_block(training::Mixer::answer_room(p.parcel));
  mixing(m);
  const auto reply = answer.serving.take(p.parcel, room.bytes());
  // Answered by none, it was taken and not looked at.
  const bool unread =
      reply.ok() && reply->payload == training::Payload::none && options_.rules->rule == gossip::Rule::choco;
  if (p.poisoned && options_.watcher != nullptr)
    options_.watcher->poison_arrived(i, from, !reply.ok() || unread);
  if (!reply || !m.has_parameters) {
    const bool own_fault = !reply && reply.error().fault == training::MixFault::own_replica;
    if (own_fault) diverged(i);
    answer.serving.abort();
    end_answer(i, p.sender, p.exchange);
    network_.reset(connection);
    return;
  }
  trace(i, 300, p.parcel.offset);
  if (flight != nullptr) {
    flight->reply = *reply;
    flight->reply_room = room;
    flight->lied = flight->lied || p.lied;
  }
  if (options_.watcher != nullptr) {
    options_.watcher->answered({i, from, p.sender, p.exchange, p.parcel.offset / options_.chunk_floats(),
                                p.parcel, *reply, p.lied, floats_of(p.parcel), floats_of(*reply),
                                lent != nullptr ? floats_of(lent->sent) : std::span<const float>(),
                                reply->weight});
  }
  const bool last = answer.serving.completed();
  PacketPtr back =
      packet(i, Packet::Kind::reply_chunk, p.exchange, wire::kChunkPrefixBytes + reply->values.size());
  back->lied = p.lied || p.poisoned;
  send_values(connection, i, std::move(back), *reply, room);
  if (last) end_answer(i, p.sender, p.exchange);
}

void World::end_answer(std::uint32_t i, PeerId from, std::uint64_t exchange) {
  Answer* const answer = answer_of(i, from, exchange);
  if (answer == nullptr) return;
  const Serving serving = answer->serving;
  machines_[i]->answers.remove_if([&](const Answer& it) { return &it == answer; });
  const gossip::Outcome unfinished = serving.poisoned() ? gossip::Outcome::poisoned : gossip::Outcome::aborted;
  step(i, gossip::AnswerEnded{from, exchange, serving.completed() ? gossip::Outcome::completed : unfinished});
}

void World::end_answers(std::uint32_t i, const Connection& connection, std::uint32_t epoch) {
  for (;;) {
    const auto& answers = machines_[i]->answers;
    const auto broken = std::find_if(answers.begin(), answers.end(), [&](const Answer& it) {
      return it.connection == &connection && it.epoch <= epoch;
    });
    if (broken == answers.end()) return;
    end_answer(i, broken->from, broken->serving.exchange());
  }
}

// ---- copies of a replica: a joiner's first, or of one that was lost ----

void World::act(std::uint32_t i, const gossip::FetchState& fetch) {
  Machine& m = *machines_[i];
  const auto donor = by_host_.find(fetch.address.host);
  STARLING_CHECK(donor != by_host_.end());
  ++m.fetch.attempt;
  m.fetch.active = true;
  if (fetch.afresh) m.fetch.in_place = 0;
  if (donor->second == i) {  // a former instance of this machine: whoever listens there now is itself
    later(now() + network_.latency(), i, [this, i, attempt = m.fetch.attempt] {
      if (machines_[i]->fetch.attempt == attempt) lose_state(i, "the donor is this peer itself", false);
    });
    return;
  }
  Connection& connection = network_.bulk(i, donor->second);
  m.fetch.connection = &connection;
  static const std::size_t kRequestBytes = frame_bytes(wire::StateRequest{1, 1, 1});
  PacketPtr p = packet(i, Packet::Kind::state_request, m.fetch.attempt, kRequestBytes);
  p->chunk = static_cast<std::uint32_t>(m.fetch.in_place);
  network_.send(connection, i, std::move(p));
  m.fetch.epoch = connection.epoch;
}

void World::act(std::uint32_t i, const gossip::AbortFetch&) {
  machines_[i]->fetch.active = false;
}

void World::give_state(std::uint32_t donor, std::uint32_t to, Connection& connection, const Packet& request) {
  const Machine& d = *machines_[donor];
  const bool acceptable = training::all_acceptable({d.arena->data(), d.arena->size()});
  if (d.has_parameters && !acceptable) diverged(donor);
  if (!d.has_parameters || !acceptable) {
    network_.send(connection, donor,
                  packet(donor, Packet::Kind::state_refusal, request.exchange, wire::kFrameHeaderBytes));
    return;
  }
  for (std::size_t k = 0; k < options_.window; ++k)
    send_state(donor, to, connection.epoch, request.chunk + k, request.exchange);
}

void World::send_state(std::uint32_t donor, std::uint32_t to, std::uint32_t epoch, std::size_t chunk,
                       std::uint64_t attempt) {
  const Machine& d = *machines_[donor];
  Connection& connection = network_.bulk(to, donor);
  Parcel parcel;
  parcel.offset = chunk * options_.chunk_floats();
  if (parcel.offset >= options_.arena_floats || connection.epoch != epoch) return;
  parcel.floats = std::min(options_.chunk_floats(), options_.arena_floats - parcel.offset);
  const Block block = new_block(sizeof(float) * parcel.floats);
  const std::span<float> values = training::as_floats(block.bytes());
  d.arena->read(parcel.offset, values);
  parcel.values = block.bytes();
  PacketPtr p =
      packet(donor, Packet::Kind::state_chunk, attempt, wire::kChunkPrefixBytes + parcel.values.size());
  p->chunk = static_cast<std::uint32_t>(chunk);
  if (!d.has_parameters || !training::all_acceptable(values)) {  // lost since it began to give
    if (d.has_parameters) diverged(donor);
    p = packet(donor, Packet::Kind::state_refusal, attempt, wire::kFrameHeaderBytes);
    network_.send(connection, donor, std::move(p));
    return;
  }
  send_values(connection, donor, std::move(p), parcel, block);
}

void World::take_state(std::uint32_t i, Connection& connection, const Packet& p) {
  Machine& m = *machines_[i];
  if (!m.fetch.active || m.fetch.attempt != p.exchange) return;
  STARLING_CHECK(p.chunk == m.fetch.in_place);  // a connection keeps their order
  const std::uint32_t donor = connection.other(i);
  const std::span<const float> values = training::as_floats(p.parcel.values);
  const bool acceptable = training::all_acceptable(values);
  if (p.poisoned && options_.watcher != nullptr) options_.watcher->poison_arrived(i, donor, !acceptable);
  if (!acceptable) {
    lose_state(i, "the donor sent a value that may not touch a replica", true);
    network_.reset(connection);
    return;
  }
  m.learner->arena_will_change();
  m.arena->write(p.parcel.offset, values);
  ++m.fetch.in_place;
  const std::size_t chunks = (options_.arena_floats - 1) / options_.chunk_floats() + 1;
  if (m.fetch.in_place == chunks) {
    m.fetch.active = false;
    m.has_parameters = true;
    return step(i, gossip::StateArrived{});
  }
  later(now(), donor,
        [this, donor, i, epoch = connection.epoch, next = p.chunk + options_.window, attempt = p.exchange] {
          send_state(donor, i, epoch, next, attempt);
        });
  const std::size_t often = std::max<std::size_t>(1, chunks / 16);
  if (m.fetch.in_place % often == 0) step(i, gossip::StateAdvanced{m.fetch.in_place, chunks});
}

void World::lose_state(std::uint32_t i, const char* why, bool poisoned) {
  Machine& m = *machines_[i];
  if (!m.fetch.active) return;
  m.fetch.active = false;
  step(i, gossip::StateLost{why, poisoned});
}

// ---- what checkers look at ----

double World::energy() const {
  // Parts (mass, value) per float; the mean of all parts is the machines' mean.
  struct Part {
    double mass;
    double value;
  };
  double energy = 0;
  std::vector<Part> parts;
  for (std::size_t f = 0; f < options_.arena_floats; ++f) {
    parts.clear();
    for (const auto& m : machines_) {
      if (!m->has_parameters) continue;
      const double x = m->arena->data()[f];
      const Own::Flight* flight = m->covering(f);
      if (flight == nullptr) {
        parts.push_back({1, x});
        continue;
      }
      const double a = floats_of(flight->sent)[f - flight->sent.offset];
      parts.push_back({0.5, 2 * x - a});
      if (flight->reply_room) {
        parts.push_back({flight->reply.weight, floats_of(flight->reply)[f - flight->sent.offset]});
        parts.push_back({0.5 - flight->reply.weight, a});
      } else {
        parts.push_back({0.5, a});
      }
    }
    double mass = 0, sum = 0;
    for (const auto& part : parts) {
      mass += part.mass;
      sum += part.mass * part.value;
    }
    const double mean = sum / mass;
    for (const auto& part : parts) energy += part.mass * (part.value - mean) * (part.value - mean);
  }
  return energy;
}

}  // namespace starling::lab
