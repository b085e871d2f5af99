#include "lab/world/virtual_exchanges.h"

#include <algorithm>
#include <span>
#include <utility>

#include "training/mixing/payload.h"
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

// The values of a float32 parcel; empty for other payloads.
std::span<const float> floats_of(const Parcel& parcel) {
  if (parcel.payload != Payload::f32) return {};
  return training::as_floats(parcel.values);
}

}  // namespace

// ---- exchanges that this peer begins ----

void VirtualExchanges::begin(const gossip::BeginExchange& begin) {
  Connection* const found = reach_.bulk_to(begin.partner);
  if (found == nullptr) {
    machine_.later(machine_.now() + world_.network.options().latency, [this, exchange = begin.exchange] {
      machine_.step(gossip::ExchangeEnded{exchange, gossip::Outcome::aborted});
    });
    return;
  }
  Connection& connection = *found;
  const training::Session session =
      training::session_under(begin.terms, begin.exchange, machine_.id().value, begin.partner.id.value);
  Own& own = owns_.emplace_back(Own{connection.acceptor, &connection, connection.epoch,
                                    Offering(*replica_.mixer, session, half_applied_)});
  ++world_.exchanges_under_way;
  static const std::size_t kOfferBytes = frame_bytes(wire::ExchangeOffer{1, 1, 1, 1, 1});
  PacketPtr offer = machine_.packet(Packet::Kind::offer, begin.exchange, kOfferBytes);
  offer->round = begin.terms.round;
  machine_.send(connection, std::move(offer));
  own.epoch = connection.epoch;  // send() may have replaced a broken connection
  send_chunks(own);
  if (own.offering.over()) {  // an exchange of zero cells; time must pass, or the next would follow at once
    const Duration pause = std::max<Duration>(world_.network.options().latency, std::chrono::milliseconds(1));
    machine_.later(machine_.now() + pause, [this, exchange = begin.exchange] {
      if (Own* const empty = this->own(exchange)) end_own(*empty);
    });
  }
}

void VirtualExchanges::offer_nothing(const Endpoint& to) {
  constexpr std::uint64_t kNeverBegun = std::uint64_t{1} << 63;  // no core numbers its exchanges like this
  Connection* const connection = reach_.bulk_to(to);
  if (connection == nullptr) return;
  static const std::size_t kOfferBytes = frame_bytes(wire::ExchangeOffer{1, 1, 1, 1, 1});
  machine_.send(*connection,
                machine_.packet(Packet::Kind::offer, kNeverBegun + ++empty_offers_, kOfferBytes));
}

VirtualExchanges::Own* VirtualExchanges::own(std::uint64_t exchange) {
  const auto found =
      std::find_if(owns_.begin(), owns_.end(), [&](const Own& it) { return it.exchange() == exchange; });
  return found == owns_.end() ? nullptr : &*found;
}

void VirtualExchanges::send_chunks(Own& own) {
  if (replica_.mixer->lending_writes()) replica_.will_change();
  while (own.offering.in_flight() < world_.options.window) {
    const training::Cells cells = own.offering.next(world_.options.chunk_cells);
    if (cells.count == 0) return;
    const Block room = world_.blocks.make(replica_.mixer->room(cells));
    const auto sent = own.offering.lend(cells, room.bytes());
    if (!sent) {
      machine_.report_divergence();
      machine_.later(machine_.now(), [this, exchange = own.exchange()] { give_up(exchange); });
      return;
    }
    world_.watcher.lent(machine_.index(), *sent);
    PacketPtr packet = machine_.packet(Packet::Kind::offer_chunk, own.exchange(),
                                       wire::kChunkPrefixBytes + sent->values.size());
    own.flights.push_back({*sent, room, machine_.local_now()});
    machine_.send_chunk(*own.connection, std::move(packet), *sent, room);
  }
}

void VirtualExchanges::take_reply(const Packet& packet) {
  Own* const found = own(packet.exchange);
  if (found == nullptr) return;  // given up and counted before
  Own& own = *found;
  const std::uint32_t i = machine_.index();
  replica_.will_change();
  if (world_.sabotage != nullptr && world_.sabotage->swallows_mix()) {
    own.offering.skip();
  } else {
    const auto mixed = own.offering.take(packet.parcel);
    if (packet.poisoned) world_.watcher.poison_arrived(i, own.partner, !mixed.ok());
    if (!mixed) {
      if (mixed.error().fault == training::MixFault::own_replica) machine_.report_divergence();
      return end_own(own);
    }
  }
  const Flight flight = std::move(own.flights.front());
  own.flights.erase(own.flights.begin());
  const Mishaps& mishaps = machine_.mishaps();
  const bool slept = !mishaps.pauses.empty() &&
                     mishaps.paused_within(mishaps.true_time(flight.lent_at), machine_.now()) > Duration{0};
  world_.watcher.completed({i,
                            own.partner,
                            machine_.id(),
                            packet.exchange,
                            flight.sent.offset / world_.options.chunk_floats(),
                            flight.sent,
                            packet.parcel,
                            packet.lied || flight.lied,
                            floats_of(flight.sent),
                            floats_of(packet.parcel),
                            {},
                            packet.parcel.weight,
                            machine_.local_now() - flight.lent_at,
                            slept});
  if (own.offering.over()) return end_own(own);
  send_chunks(own);
  if (own.offering.report_due())
    machine_.step(gossip::ExchangeAdvanced{packet.exchange, own.offering.cells_answered()});
}

void VirtualExchanges::take_refusal(const Packet& packet) {
  Own* const refused = own(packet.exchange);
  if (refused == nullptr) return;
  replica_.will_change();
  refused->offering.refuse();
  end_own(*refused, packet.round);
}

void VirtualExchanges::give_up(std::uint64_t exchange) {
  Own* const given_up = own(exchange);
  if (given_up == nullptr) return;
  replica_.will_change();
  given_up->offering.abort();
  end_own(*given_up);
}

void VirtualExchanges::abort(const gossip::AbortExchange& abort) {
  Own* const aborted = own(abort.exchange);
  if (aborted == nullptr) return;
  replica_.will_change();
  aborted->offering.abort();
  close_own(*aborted);
}

// REQUIRES: its offering is over.
void VirtualExchanges::end_own(Own& own, std::uint64_t round) {
  const gossip::ExchangeEnded ended{own.exchange(), outcome_of(own.offering.ending()), round};
  close_own(own);
  machine_.step(ended);
}

// Removes an exchange that is over. If it broke off, the connection is closed, so that the partner waits for
// no more chunks.
void VirtualExchanges::close_own(Own& own) {
  const std::uint32_t i = machine_.index();
  const Offering::Ending ending = own.offering.ending();
  for (const Flight& flight : own.flights) {
    if (ending == Offering::Ending::rejected) {
      world_.watcher.taken_back(i, flight.sent);
    } else {
      world_.watcher.half_applied(i, own.exchange(), flight.sent.offset / world_.options.chunk_floats());
    }
  }
  const bool cells_missing = own.offering.cells_answered() < own.offering.cells().count;
  if (ending != Offering::Ending::rejected && cells_missing) {
    world_.network.close(*own.connection, own.epoch, i,
                         machine_.packet(Packet::Kind::close, own.exchange(), wire::kFrameHeaderBytes));
  }
  Connection& used = *own.connection;
  const bool stands = used.epoch == own.epoch;
  owns_.remove_if([&](const Own& it) { return &it == &own; });
  --world_.exchanges_under_way;
  const bool is_used =
      std::any_of(owns_.begin(), owns_.end(), [&](const Own& it) { return it.connection == &used; });
  if (used.via && stands && !is_used) world_.network.hang_up(used, i);
}

// ---- exchanges that other peers begin ----

void VirtualExchanges::take_offer(VirtualExchanges& initiator, Connection& connection, const Packet& packet) {
  make_room(budget_.end_for_offer(packet.sender), packet.sender);
  answers_.push_back({++last_answer_, packet.round, packet.sender, &initiator, &connection, connection.epoch,
                      Serving(packet.exchange)});
  machine_.step(gossip::ExchangeOffered{packet.sender, packet.exchange, packet.round});
}

VirtualExchanges::Answer* VirtualExchanges::answer_of(PeerId from, std::uint64_t exchange) {
  const auto found = std::find_if(answers_.begin(), answers_.end(), [&](const Answer& it) {
    return it.from == from && it.serving.exchange() == exchange;
  });
  return found == answers_.end() ? nullptr : &*found;
}

void VirtualExchanges::answer(const gossip::AnswerOffer& decision) {
  Answer* const answer = answer_of(decision.from, decision.exchange);
  if (answer == nullptr) return;  // withdrawn
  if (decision.accept) {
    if (const auto oldest = budget_.end_for_offer(decision.from))
      machine_.later(machine_.now(), [this, oldest, from = decision.from] { make_room(oldest, from); });
    budget_.answer_began(answer->number, decision.from, machine_.local_now());
    world_.watcher.answer_changed(machine_.index(),
                                  {AnswerChange::What::began, decision.from, decision.exchange});
    const std::uint64_t initiator = decision.from.value;
    answer->serving.accept(*replica_.mixer,
                           training::session_under(decision.terms, decision.exchange, initiator, initiator));
    if (answer->waiting.empty() && !answer->serving.completed()) return;
    machine_.later(machine_.now(), [this, from = decision.from, exchange = decision.exchange] {
      answer_waiting(from, exchange);
    });
    return;
  }
  if (decision.reason == wire::RefusalReason::busy && make_room_for(*answer)) return;
  Connection& connection = *answer->connection;
  const bool stands = connection.epoch == answer->epoch;
  answers_.remove_if([&](const Answer& it) { return &it == answer; });
  if (!stands) return;  // its successor belongs to another exchange, possibly of another instance
  static const std::size_t kRefusalBytes =
      frame_bytes(wire::ExchangeRefusal{1, wire::RefusalReason::busy, 1});
  PacketPtr refusal = machine_.packet(Packet::Kind::refusal, decision.exchange, kRefusalBytes);
  refusal->round = decision.terms.round;
  machine_.send(connection, std::move(refusal));
}

// Whether another answer ends for this offer, which the core refused as busy: then the core is asked again.
bool VirtualExchanges::make_room_for(Answer& refused) {
  if (std::exchange(refused.asked_again, true)) return false;
  const auto ending = budget_.end_for_refused(refused.from, machine_.local_now());
  if (!ending) return false;
  machine_.later(machine_.now(), [this, ending, from = refused.from, exchange = refused.serving.exchange()] {
    make_room(ending, from);
    if (const Answer* const offer = answer_of(from, exchange))
      machine_.step(gossip::ExchangeOffered{from, exchange, offer->round});
  });
  return true;
}

// Ends this answer for a further one of a peer, with its connection.
void VirtualExchanges::make_room(std::optional<std::uint64_t> ending, PeerId further) {
  auto answer =
      std::ranges::find_if(answers_, [&](const Answer& it) { return ending && it.number == *ending; });
  if (answer == answers_.end()) return;
  if (world_.sabotage != nullptr && world_.sabotage->keeps_answers()) return;
  if (world_.sabotage != nullptr && world_.sabotage->ends_latest_answer()) {
    for (auto it = answers_.begin(); it != answers_.end(); ++it)
      if (it->serving.accepted()) answer = it;
  }
  world_.watcher.answer_changed(
      machine_.index(), {AnswerChange::What::displaced, answer->from, answer->serving.exchange(), further});
  Connection& connection = *answer->connection;
  const bool stands = connection.epoch == answer->epoch;
  end_answer(answer->from, answer->serving.exchange());
  if (stands) world_.network.reset(connection);
}

// Answers the chunks that arrived before the offer was accepted, and ends an exchange of zero cells.
void VirtualExchanges::answer_waiting(PeerId from, std::uint64_t exchange) {
  for (;;) {
    Answer* const answer = answer_of(from, exchange);
    if (answer == nullptr) return;
    if (answer->serving.completed()) return end_answer(from, exchange);
    if (answer->waiting.empty()) return;
    if (answer->connection->epoch != answer->epoch) return;  // it broke: the answer is about to end
    const Packet packet = std::move(answer->waiting.front());
    answer->waiting.erase(answer->waiting.begin());
    answer_chunk(*answer, packet);
  }
}

void VirtualExchanges::take_chunk(Packet& packet) {
  Answer* const answer = answer_of(packet.sender, packet.exchange);
  if (answer == nullptr) return;  // refused or aborted
  if (!answer->serving.accepted() || !answer->waiting.empty()) {
    answer->waiting.push_back(std::move(packet));
    return;
  }
  answer_chunk(*answer, packet);
}

// The initiator's flight of this chunk, if it is still under way; null otherwise.
VirtualExchanges::Flight* VirtualExchanges::flight_of(const Answer& answer, const Packet& packet) {
  VirtualExchanges& initiator = *answer.initiator;
  Own* const theirs = initiator.machine_.id() == packet.sender ? initiator.own(packet.exchange) : nullptr;
  if (theirs == nullptr) return nullptr;
  const auto found = std::find_if(theirs->flights.begin(), theirs->flights.end(),
                                  [&](const Flight& it) { return it.sent.offset == packet.parcel.offset; });
  return found == theirs->flights.end() ? nullptr : &*found;
}

// REQUIRES: the offer was accepted.
void VirtualExchanges::answer_chunk(Answer& answer, const Packet& packet) {
  const std::uint32_t i = machine_.index(), from = answer.initiator->machine_.index();
  Connection& connection = *answer.connection;
  const Parcel& offer = packet.parcel;
  const Flight* const lent = covering(offer.offset);  // by this peer, of the same chunk
  const Block room = world_.blocks.make(training::Mixer::answer_room(offer));
  replica_.will_change();
  budget_.answer_moved(answer.number, machine_.local_now(), offer.values.size());
  world_.watcher.answer_changed(i, {AnswerChange::What::moved, packet.sender, packet.exchange});
  const auto reply = answer.serving.take(offer, room.bytes());
  // Replies which say that the chunk's values were not used: with choco those without payload, with push-sum
  // those of weight 0, after which the sender takes its share back.
  const RuleTraits& rule = traits(world_.options.rules->rule);
  const bool unread = reply.ok() && reply->payload == Payload::none &&
                      (rule.copies || (rule.keeps == Keeps::weighted_sum && reply->weight == 0));
  if (packet.poisoned) world_.watcher.poison_arrived(i, from, !reply.ok() || unread);
  if (!reply || !replica_.present) {
    if (!reply && reply.error().fault == training::MixFault::own_replica) machine_.report_divergence();
    answer.serving.abort();
    end_answer(packet.sender, packet.exchange);
    world_.network.reset(connection);
    return;
  }
  machine_.trace(300, offer.offset);
  if (Flight* const flight = flight_of(answer, packet)) {
    flight->reply = *reply;
    flight->reply_room = room;
    flight->lied = flight->lied || packet.lied;
  }
  world_.watcher.answered(
      {i, from, packet.sender, packet.exchange, offer.offset / world_.options.chunk_floats(), offer, *reply,
       packet.lied, floats_of(offer), floats_of(*reply),
       lent != nullptr ? floats_of(lent->sent) : std::span<const float>(), reply->weight});
  PacketPtr back = machine_.packet(Packet::Kind::reply_chunk, packet.exchange,
                                   wire::kChunkPrefixBytes + reply->values.size());
  back->lied = packet.lied || packet.poisoned;
  machine_.send_chunk(connection, std::move(back), *reply, room);
  if (answer.serving.completed()) end_answer(packet.sender, packet.exchange);
}

void VirtualExchanges::end_answer(PeerId from, std::uint64_t exchange) {
  Answer* const answer = answer_of(from, exchange);
  if (answer == nullptr) return;
  const Serving serving = answer->serving;
  budget_.answer_ended(answer->number, serving.completed());
  answers_.remove_if([&](const Answer& it) { return &it == answer; });
  const gossip::Outcome unfinished =
      serving.poisoned() ? gossip::Outcome::poisoned : gossip::Outcome::aborted;
  machine_.step(
      gossip::AnswerEnded{from, exchange, serving.completed() ? gossip::Outcome::completed : unfinished});
}

void VirtualExchanges::end_answers(const Connection& connection, std::uint32_t epoch) {
  for (;;) {
    const auto broken = std::find_if(answers_.begin(), answers_.end(), [&](const Answer& it) {
      return it.connection == &connection && it.epoch <= epoch;
    });
    if (broken == answers_.end()) return;
    end_answer(broken->from, broken->serving.exchange());
  }
}

// ---- both ----

bool VirtualExchanges::connection_broke(const Connection& connection, std::uint32_t epoch) {
  if (connection.acceptor == machine_.index()) {
    end_answers(connection, epoch);
    return true;
  }
  const auto own = std::find_if(owns_.begin(), owns_.end(), [&](const Own& it) {
    return it.connection == &connection && it.epoch <= epoch;
  });
  if (own == owns_.end()) return false;
  give_up(own->exchange());
  return true;
}

const VirtualExchanges::Flight* VirtualExchanges::covering(std::size_t offset) const {
  for (const Own& own : owns_) {
    for (const Flight& flight : own.flights) {
      if (flight.sent.offset <= offset && offset < flight.sent.offset + flight.sent.floats) return &flight;
    }
  }
  return nullptr;
}

}  // namespace starling::lab
