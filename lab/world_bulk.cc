// The world's data plane: exchanges, and the first copy of whoever joins.

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/check.h"
#include "lab/machine.h"
#include "lab/message_size.h"
#include "lab/world.h"
#include "wire/frame.h"

namespace starling::lab {

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
void World::send_values(Connection& connection, std::uint32_t from, PacketPtr p, Values values) {
  const Machine& m = *machines_[from];
  if (!m.poisons.empty() && spoiling_.chance(m.poison_chance(now()))) {
    static constexpr std::array<float, 4> kPoison = {std::numeric_limits<float>::quiet_NaN(),
                                                     std::numeric_limits<float>::infinity(), 1e38f, -1e38f};
    values = std::make_shared<std::vector<float>>(*values);
    for (std::size_t k = 1 + spoiling_.below(3); k > 0; --k)
      (*values)[spoiling_.below(values->size())] = kPoison[spoiling_.below(kPoison.size())];
    p->poisoned = true;
  }
  p->values = std::move(values);
  network_.send(connection, from, std::move(p));
}

// ---- exchanges of one's own ----

void World::act(std::uint32_t i, const gossip::BeginExchange& begin) {
  Machine& m = *machines_[i];
  STARLING_CHECK(!m.own);
  const auto partner = by_host_.find(begin.address.host);
  STARLING_CHECK(partner != by_host_.end());
  if (partner->second == i) {  // a former instance of this machine: whoever listens there now is itself
    later(now() + network_.latency(), i, [this, i, exchange = begin.exchange] {
      step(i, gossip::ExchangeEnded{exchange, gossip::Outcome::aborted});
    });
    return;
  }
  Connection& connection = network_.bulk(i, partner->second);
  m.own.emplace(Own{begin.exchange, partner->second, &connection, connection.epoch, 0, 0, {}});
  ++exchanges_under_way_;
  static const std::size_t kOfferBytes = frame_bytes(wire::ExchangeOffer{1, 1, 1, 1});
  network_.send(connection, i, packet(i, Packet::Kind::offer, begin.exchange, kOfferBytes));
  m.own->epoch = connection.epoch;  // sending may have found the old connection dead
  send_chunks(i);
}

void World::send_chunks(std::uint32_t i) {
  Machine& m = *machines_[i];
  Own& own = *m.own;
  const auto& grid = m.mixer->grid();
  while (own.flights.size() < options_.window && own.next_chunk < grid.count()) {
    const std::size_t chunk = own.next_chunk++;
    auto a = std::make_shared<std::vector<float>>(grid.floats(chunk));
    m.mixer->lend(chunk, *a);
    own.flights.push_back({chunk, a, m.local(now())});
    PacketPtr p = packet(i, Packet::Kind::offer_chunk, own.exchange,
                         wire::kChunkPrefixBytes + sizeof(float) * a->size());
    p->chunk = static_cast<std::uint32_t>(chunk);
    send_values(*own.connection, i, std::move(p), std::move(a));
  }
}

void World::take_reply(std::uint32_t i, const Packet& p) {
  Machine& m = *machines_[i];
  if (!m.own || m.own->exchange != p.exchange) return;  // given up meanwhile; counted then
  Own& own = *m.own;
  Own::Flight* flight = own.flight(p.chunk);
  STARLING_CHECK(flight != nullptr);
  const Duration age = m.local(now()) - flight->lent_at;
  const bool swallowed = options_.sabotage != nullptr && options_.sabotage->swallows_mix();
  if (swallowed) {
    m.mixer->give_up(p.chunk);
  } else {
    const auto mixed = m.mixer->complete(p.chunk, *p.values, p.weight);
    if (p.poisoned && options_.watcher != nullptr)
      options_.watcher->poison_arrived(i, own.partner, !mixed.ok());
    if (!mixed) {
      return end_own(i, mixed.error().poisoned ? gossip::Outcome::poisoned : gossip::Outcome::aborted);
    }
  }
  if (options_.watcher != nullptr) {
    const Instant lent_at = m.true_time(flight->lent_at);
    const bool slept = !m.pauses.empty() && paused_within(i, lent_at, now()).count() > 0;
    options_.watcher->completed(
        {i, own.partner, m.id, own.exchange, p.chunk, *flight->a, *p.values, p.weight, {}, age, slept});
  }
  own.flights.erase(own.flights.begin() + (flight - own.flights.data()));
  if (++own.completed == m.mixer->grid().count()) {
    end_own(i, gossip::Outcome::completed);
  } else {
    send_chunks(i);
  }
}

void World::end_own(std::uint32_t i, gossip::Outcome outcome) {
  const std::uint64_t exchange = machines_[i]->own->exchange;
  // Where it was refused nobody mixed, so nothing is half applied.
  end_loans(i, outcome != gossip::Outcome::rejected);
  step(i, gossip::ExchangeEnded{exchange, outcome});
}

void World::act(std::uint32_t i, const gossip::AbortExchange& abort) {
  if (machines_[i]->own && machines_[i]->own->exchange == abort.exchange) end_loans(i, true);
}

// Ends the exchange in flight. What was sent and not answered may be mixed at the partner: it is counted, and
// the partner learns that no more will come.
void World::end_loans(std::uint32_t i, bool counted) {
  Machine& m = *machines_[i];
  Own& own = *m.own;
  for (const Own::Flight& flight : own.flights) {
    m.mixer->give_up(flight.chunk);
    if (!counted) continue;
    ++m.half_applied_chunks;
    if (options_.watcher != nullptr) options_.watcher->half_applied(i, own.exchange, flight.chunk);
  }
  if (own.completed < m.mixer->grid().count() && counted) {
    network_.close(*own.connection, own.epoch, i,
                   packet(i, Packet::Kind::close, own.exchange, wire::kFrameHeaderBytes));
  }
  m.own.reset();
  --exchanges_under_way_;
}

// ---- exchanges of others ----

void World::act(std::uint32_t i, const gossip::AnswerOffer& answer) {
  const std::uint32_t initiator = index_of(answer.from);
  Connection& connection = network_.bulk(initiator, i);
  if (answer.accept) {
    machines_[i]->answers.push_back({answer.from, answer.exchange, &connection, connection.epoch});
    return;
  }
  static const std::size_t kRefusalBytes = frame_bytes(wire::ExchangeRefusal{1, wire::RefusalReason::busy});
  network_.send(connection, i, packet(i, Packet::Kind::refusal, answer.exchange, kRefusalBytes));
}

void World::answer_chunk(std::uint32_t i, std::uint32_t from, Connection& connection, const Packet& p) {
  Machine& m = *machines_[i];
  const auto answer = std::find_if(m.answers.begin(), m.answers.end(), [&](const Answer& it) {
    return it.from == p.sender && it.exchange == p.exchange;
  });
  if (answer == m.answers.end()) return;  // refused, or broken off
  Machine& initiator = *machines_[from];
  Own::Flight* flight = nullptr;
  if (initiator.own && initiator.id == p.sender && initiator.own->exchange == p.exchange)
    flight = initiator.own->flight(p.chunk);
  // What the responder has lent of this chunk itself: its mixer knows, its own flight holds it.
  const Own::Flight* lent = m.own ? m.own->flight(p.chunk) : nullptr;

  auto b = std::make_shared<std::vector<float>>(p.values->size());
  const auto w = m.mixer->answer(p.chunk, *p.values, *b);
  if (p.poisoned && options_.watcher != nullptr) options_.watcher->poison_arrived(i, from, !w.ok());
  if (!w) {
    end_answer(i, p.sender, p.exchange, w.error().poisoned);
    network_.reset(connection);
    return;
  }
  trace(i, 300, p.chunk);
  if (flight != nullptr) {
    flight->b = b;
    flight->w = *w;
  }
  if (options_.watcher != nullptr) {
    const std::span<const float> own_loan =
        lent != nullptr ? std::span<const float>(*lent->a) : std::span<const float>();
    options_.watcher->answered({i, from, p.sender, p.exchange, p.chunk, *p.values, *b, *w, own_loan});
  }
  const bool last = ++answer->chunks == m.mixer->grid().count();
  PacketPtr reply =
      packet(i, Packet::Kind::reply_chunk, p.exchange, wire::kChunkPrefixBytes + sizeof(float) * b->size());
  reply->chunk = p.chunk;
  reply->weight = *w;
  send_values(connection, i, std::move(reply), std::move(b));
  if (last) end_answer(i, p.sender, p.exchange, false);
}

void World::end_answer(std::uint32_t i, PeerId from, std::uint64_t exchange, bool poisoned) {
  Machine& m = *machines_[i];
  const auto answer = std::find_if(m.answers.begin(), m.answers.end(), [&](const Answer& it) {
    return it.from == from && it.exchange == exchange;
  });
  if (answer == m.answers.end()) return;
  const bool completed = answer->chunks == m.mixer->grid().count();
  m.answers.erase(answer);
  step(i, gossip::AnswerEnded{from, exchange, completed, poisoned});
}

void World::end_answers(std::uint32_t i, const Connection& connection, std::uint32_t epoch) {
  for (;;) {
    const auto& answers = machines_[i]->answers;
    const auto broken = std::find_if(answers.begin(), answers.end(), [&](const Answer& it) {
      return it.connection == &connection && it.epoch <= epoch;
    });
    if (broken == answers.end()) return;
    end_answer(i, broken->from, broken->exchange, false);
  }
}

// ---- a joiner's first copy ----

void World::act(std::uint32_t i, const gossip::FetchState& fetch) {
  Machine& m = *machines_[i];
  const auto donor = by_host_.find(fetch.address.host);
  STARLING_CHECK(donor != by_host_.end());
  ++m.fetch.attempt;
  m.fetch.active = true;
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
  if (!machines_[donor]->has_parameters) {
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
  const auto& grid = d.mixer->grid();
  Connection& connection = network_.bulk(to, donor);
  if (chunk >= grid.count() || connection.epoch != epoch) return;
  auto values = std::make_shared<std::vector<float>>(grid.floats(chunk));
  d.arena->read(grid.offset(chunk), *values);
  PacketPtr p = packet(donor, Packet::Kind::state_chunk, attempt,
                       wire::kChunkPrefixBytes + sizeof(float) * values->size());
  p->chunk = static_cast<std::uint32_t>(chunk);
  send_values(connection, donor, std::move(p), std::move(values));
}

void World::take_state(std::uint32_t i, Connection& connection, const Packet& p) {
  Machine& m = *machines_[i];
  if (!m.fetch.active || m.fetch.attempt != p.exchange) return;
  STARLING_CHECK(p.chunk == m.fetch.in_place);  // a connection keeps their order
  const std::uint32_t donor = connection.other(i);
  const bool acceptable = training::all_acceptable(*p.values);
  if (p.poisoned && options_.watcher != nullptr) options_.watcher->poison_arrived(i, donor, !acceptable);
  if (!acceptable) {
    lose_state(i, "the donor sent a value that may not touch a replica", true);
    network_.reset(connection);
    return;
  }
  const auto& grid = m.mixer->grid();
  m.arena->write(grid.offset(p.chunk), *p.values);
  ++m.fetch.in_place;
  if (m.fetch.in_place == grid.count()) {
    m.fetch.active = false;
    m.has_parameters = true;
    return step(i, gossip::StateArrived{});
  }
  later(now(), donor,
        [this, donor, i, epoch = connection.epoch, next = p.chunk + options_.window, attempt = p.exchange] {
          send_state(donor, i, epoch, next, attempt);
        });
  const std::size_t often = std::max<std::size_t>(1, grid.count() / 16);
  if (m.fetch.in_place % often == 0) step(i, gossip::StateAdvanced{m.fetch.in_place, grid.count()});
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
    const std::size_t chunk = f / options_.chunk_floats;
    const std::size_t within = f % options_.chunk_floats;
    for (const auto& m : machines_) {
      if (!m->has_parameters) continue;
      const double x = m->arena->data()[f];
      const Own::Flight* flight = m->own ? m->own->flight(chunk) : nullptr;
      if (flight == nullptr) {
        parts.push_back({1, x});
        continue;
      }
      const double a = (*flight->a)[within];
      parts.push_back({0.5, 2 * x - a});
      if (flight->b) {
        parts.push_back({flight->w, (*flight->b)[within]});
        parts.push_back({0.5 - flight->w, a});
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
