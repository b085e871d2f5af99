#include "node/exchange/initiator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "node/exchange/parcel_io.h"
#include "transport/message_io.h"
#include "transport/spawn.h"

namespace starling::node {

using gossip::Outcome;
using training::Parcel;
using transport::Frame;

// One exchange. What was sent and not answered lies in a ring, oldest first: replies come in order.
struct Initiator::Own {
  struct Sent {
    Room room;  // in which the parcel lies
    Parcel parcel;
    Flow::Sent when;
    std::uint64_t steps;  // of the replica, when this was lent
  };

  explicit Own(const asio::any_io_executor& executor) : progress(executor), written(executor) {}

  training::Session session;
  PeerId partner;
  LinePtr line;
  std::shared_ptr<Flow> flow;
  std::vector<Sent> ring = std::vector<Sent>(8);
  std::uint64_t sent = 0;      // chunks whose sending has begun
  std::uint64_t answered = 0;  // chunks whose reply has been taken
  bool writing = false;        // the newest chunk is on its way to the kernel: its room must stay
  training::Cells cells;  // that are exchanged
  std::size_t cells_sent = 0, cells_answered = 0, cells_told = 0;
  Outcome outcome = Outcome::aborted;
  std::uint64_t round = 0;  // what a refusal said
  bool over = false;        // nothing more may be lent, sent or mixed
  bool abandoned = false;   // by abort() or close(): the Initiator, if there still is one, knows it no more
  bool silent = false;      // the connection ended before the first word came back
  bool writer_done = false;
  transport::Signal progress;  // a reply came, or it is over
  transport::Signal written;   // the writer is done
  double distance_square = 0, norm_square = 0;
  std::uint64_t stale = 0;  // steps, of the oldest chunk

  std::size_t in_flight() const { return static_cast<std::size_t>(sent - answered); }
  Sent& oldest() { return ring[answered % ring.size()]; }
  Sent& newest() { return ring[(sent - 1) % ring.size()]; }
  void push(Sent chunk) {
    if (in_flight() == ring.size()) {
      std::vector<Sent> larger(2 * ring.size());
      for (std::uint64_t k = answered; k < sent; ++k) larger[k % larger.size()] = std::move(ring[k % ring.size()]);
      ring = std::move(larger);
    }
    ++sent;
    newest() = std::move(chunk);
  }
};

Initiator::Initiator(Plane& plane)
    : plane_(plane), pool_(plane.executor, plane.options.idle_max, plane.options.idle_limit) {}

void Initiator::begin(std::uint64_t exchange, PeerId partner, const Address& address, const gossip::Terms& terms) {
  STARLING_CHECK(plane_.mixer != nullptr && !owns_.contains(exchange));
  auto own = std::make_shared<Own>(plane_.executor);
  own->partner = partner;
  own->session.exchange = exchange;
  own->session.initiator = plane_.links.hello().id.value;
  own->session.partner = partner.value;
  own->session.round = terms.round;
  own->session.weight = terms.weight;
  own->session.own_share = terms.own_share;
  own->session.part = terms.part.index;
  own->session.parts = terms.part.of;
  own->cells = plane_.mixer->grid().part(terms.part.index, terms.part.of);
  own->flow = flow_of(partner);
  owns_[exchange] = own;
  transport::spawn(plane_.executor, run(std::move(own), address));
}

void Initiator::abort(std::uint64_t exchange) {
  const auto found = owns_.find(exchange);
  if (found == owns_.end()) return;
  const OwnPtr own = std::move(found->second);
  owns_.erase(found);
  abandon(*own);
}

void Initiator::close() {
  for (auto& [exchange, own] : std::exchange(owns_, {})) abandon(*own);
  pool_.close();
}

void Initiator::abandon(Own& own) {
  own.over = own.abandoned = true;
  end_loans(own, false);
  if (own.line) own.line->link->close();
  own.progress.raise();
  own.written.raise();
}

void Initiator::end_loans(Own& own, bool refused) {
  if (!refused) plane_.counters.half_applied_chunks += own.in_flight();
  for (; own.answered < own.sent; ++own.answered) {
    const Parcel& parcel = own.oldest().parcel;
    if (refused) {
      plane_.mixer->take_back(own.session, parcel);
    } else {
      plane_.mixer->give_up(own.session, parcel);
    }
  }
  // Their rooms stay in the ring: the newest may still be on its way to the kernel.
}

const Flow* Initiator::flow(PeerId partner) const {
  const auto found = flows_.find(partner);
  return found == flows_.end() ? nullptr : found->second.flow.get();
}

std::shared_ptr<Flow> Initiator::flow_of(PeerId partner) {
  auto found = flows_.find(partner);
  if (found == flows_.end()) {
    if (flows_.size() >= plane_.options.partners_max) {
      flows_.erase(std::min_element(flows_.begin(), flows_.end(), [](const auto& a, const auto& b) {
        return a.second.used < b.second.used;
      }));
    }
    FlowOptions options;
    options.chunk_cells = plane_.options.chunk_cells;
    options.window = plane_.options.window;
    options.cell_bytes = sizeof(float) * plane_.mixer->grid().cell_floats;
    found = flows_.try_emplace(partner, Known{std::make_shared<Flow>(options)}).first;
  }
  found->second.used = ++uses_;
  return found->second.flow;
}

asio::awaitable<void> Initiator::run(OwnPtr own, Address address) {
  if (own->abandoned) co_return;
  own->line = pool_.take(own->partner);
  if (own->line) {
    co_await attempt(own);
    if (own->abandoned) co_return;
    if (own->silent) {
      // The remote had closed it, and the news came too late for the watcher: a new one gets its chance.
      ++plane_.counters.redials;
      take_up_again(*own);
    }
  }
  if (!own->line) {
    auto dialled = co_await plane_.links.dial_bulk(address);
    if (own->abandoned) {
      if (dialled) dialled->link->close();
      co_return;
    }
    if (dialled && dialled->remote.id == own->partner) {
      own->line = std::make_shared<Line>(plane_.executor, own->partner, dialled->link);
      co_await attempt(own);
      if (own->abandoned) co_return;
    } else if (dialled) {
      dialled->link->close();  // another instance listens there now
    }
  }
  if (own->outcome == Outcome::completed && own->norm_square > 0)
    plane_.counters.distance = std::sqrt(own->distance_square / own->norm_square);
  if (own->outcome == Outcome::completed) plane_.counters.staleness.count(own->stale);
  if (own->line && own->line->link->is_open()) pool_.rest(own->line);
  owns_.erase(own->session.exchange);
  plane_.events.on_ended(own->session.exchange, own->outcome, own->round);
}

void Initiator::take_up_again(Own& own) {
  own.line.reset();
  own.over = own.silent = own.writer_done = false;
  own.cells_sent = own.cells_answered = own.cells_told = 0;
}

// One try, on own->line: afterwards nothing is lent, and the writer is done.
asio::awaitable<void> Initiator::attempt(OwnPtr own) {
  own->line->link->expires_never();  // the core knows how long this partner may be silent, and aborts
  transport::spawn(plane_.executor, write(own));
  co_await read(own);
  if (own->abandoned) co_return;
  own->over = true;
  end_loans(*own, own->outcome == Outcome::rejected);
  const bool usable = own->outcome == Outcome::completed || own->outcome == Outcome::rejected;
  if (!usable) own->line->link->close();
  own->progress.raise();
  while (!own->writer_done && !own->abandoned) co_await own->written.wait();
}

asio::awaitable<void> Initiator::write(OwnPtr own) {
  if (own->abandoned) co_return;
  const transport::LinkPtr link = own->line->link;
  const auto grid = plane_.mixer->grid();
  Flow& flow = *own->flow;
  flow.begin();
  wire::ExchangeOffer offer;
  offer.exchange = own->session.exchange;
  offer.fingerprint = plane_.fingerprint;
  offer.arena_floats = grid.arena_floats;
  offer.cell_floats = static_cast<std::uint32_t>(grid.cell_floats);
  offer.round = own->session.round;
  bool good = (co_await transport::write_message(*link, offer)).ok();
  alignas(64) std::array<std::byte, wire::kChunkPrefixBytes> prefix;
  while (good && !own->over && own->cells_sent < own->cells.count) {
    if (own->in_flight() >= flow.window()) {
      co_await own->progress.wait();
      continue;
    }
    const training::Cells cells{own->cells.first + own->cells_sent,
                                std::min(flow.chunk_cells(), own->cells.count - own->cells_sent)};
    Room room = plane_.rooms.take(plane_.mixer->room(cells));
    auto parcel = plane_.mixer->lend(own->session, cells, room.bytes());
    if (!parcel) {
      plane_.rooms.give(std::move(room));
      if (parcel.error().fault == training::MixFault::own_replica) plane_.diverge();
      link->close();  // the reader ends
      break;
    }
    own->push({std::move(room), *parcel, flow.sent(Plane::now(), sizeof(float) * parcel->floats), plane_.steps()});
    own->cells_sent += cells.count;
    wire::write_chunk_prefix(head_of(*parcel, own->session.exchange, wire::ChunkKind::offer), parcel->values, prefix);
    own->writing = true;
    good = (co_await link->write(prefix, parcel->values)).ok();
    own->writing = false;
    if (good && !own->over && own->in_flight() == 0) plane_.rooms.give(std::move(own->newest().room));
  }
  own->writer_done = true;
  own->written.raise();
}

asio::awaitable<void> Initiator::read(OwnPtr own) {
  const std::size_t cells = own->cells.count;
  const LinePtr line = own->line;
  own->outcome = Outcome::aborted;
  while (own->cells_answered < cells) {
    const auto frame = co_await line->read();
    if (own->over) co_return;
    if (!frame) co_return fail(*own, frame.error());
    if (frame->kind == wire::FrameKind::control) co_return take_refusal(*own, *frame);
    if (!take_reply(*own, *frame)) co_return;
    own->progress.raise();
    const std::size_t due = own->cells_told + (cells + 15) / 16;
    if (own->cells_answered < due && own->cells_answered < cells) continue;
    own->cells_told = own->cells_answered;
    plane_.events.on_advanced(own->session.exchange, own->cells_answered);
    if (own->over) co_return;  // by whoever was told
  }
  own->outcome = Outcome::completed;
}

void Initiator::fail(Own& own, const transport::LinkError& error) {
  using Kind = transport::LinkErrorKind;
  own.silent = own.cells_answered == 0 && (error.kind == Kind::closed_by_peer || error.kind == Kind::broken);
  plane_.links.note(error);
}

void Initiator::take_refusal(Own& own, const Frame& frame) {
  const auto message = transport::message_in(*own.line->link, frame);
  if (!message) return plane_.links.note(message.error());
  const auto* refusal = std::get_if<wire::ExchangeRefusal>(&*message);
  if (refusal == nullptr || refusal->exchange != own.session.exchange || own.cells_answered > 0) return;
  own.round = refusal->round;
  own.outcome = Outcome::rejected;
}

// False ends the exchange: own.outcome says how.
bool Initiator::take_reply(Own& own, const Frame& frame) {
  const auto& head = frame.chunk;
  if (head.kind != wire::ChunkKind::reply || head.exchange != own.session.exchange || own.in_flight() == 0) {
    ++plane_.counters.chunks_refused;
    return false;
  }
  Own::Sent& sent = own.oldest();
  const auto mixed = plane_.mixer->complete(own.session, sent.parcel, parcel_of(frame));
  ++own.answered;  // the loan is over in any case
  if (!mixed) {
    ++plane_.counters.chunks_refused;
    ++plane_.counters.half_applied_chunks;
    if (mixed.error().poisoned()) own.outcome = Outcome::poisoned;
    if (mixed.error().fault == training::MixFault::own_replica) plane_.diverge();
    return false;
  }
  own.stale = std::max(own.stale, plane_.steps() - sent.steps);
  own.distance_square += mixed->distance_square;
  own.norm_square += mixed->norm_square;
  const std::size_t cell_floats = plane_.mixer->grid().cell_floats;
  own.cells_answered += (sent.parcel.floats + cell_floats - 1) / cell_floats;
  own.flow->answered(Plane::now(), sent.when);
  const bool in_use = own.writing && own.in_flight() == 0;  // the writer gives it back
  if (!in_use) plane_.rooms.give(std::move(sent.room));
  return true;
}

}  // namespace starling::node
