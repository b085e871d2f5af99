#include "node/exchange/initiator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>

#include "base/check.h"
#include "training/mixing/sides.h"

namespace starling::node {

using gossip::Outcome;
using training::Offering;
using transport::Frame;

namespace {

Outcome outcome_of(Offering::Ending ending) {
  if (ending == Offering::Ending::completed) return Outcome::completed;
  if (ending == Offering::Ending::rejected) return Outcome::rejected;
  if (ending == Offering::Ending::poisoned) return Outcome::poisoned;
  return Outcome::aborted;
}

}  // namespace

struct Initiator::Own {
  // For each chunk that the offering has in flight.
  struct Sent {
    Room room;  // holds the parcel's values
    Flow::Sent when;
    std::uint64_t steps;  // applied to the replica when the chunk was lent
  };

  Own(const asio::any_io_executor& executor, PeerId remote)
      : partner(remote), progress(executor), written(executor) {}

  PeerId partner;
  LinePtr line;
  std::shared_ptr<Flow> flow;
  std::optional<Offering> offering;  // of the current attempt
  std::deque<Sent> sent;             // in the order of the replies
  Room writing;                      // the newest chunk's, if its reply came before its last byte was written
  bool write_pending = false;        // the newest chunk's room is still being written
  std::uint64_t round = 0;           // from the refusal
  bool quarantined = false;          // the same
  bool abandoned = false;  // by abort() or close(): the Initiator, if it still exists, has dropped it
  bool silent = false;     // the connection ended before the first byte came back
  bool writer_done = false;
  transport::Signal progress;  // a reply came, or the exchange is over
  transport::Signal written;   // the writer is done
  double distance_square = 0, norm_square = 0;
  std::uint64_t stale = 0;  // steps between lending and mixing: the most of any chunk
};

void Initiator::begin(std::uint64_t exchange, const Endpoint& partner, const gossip::Terms& terms) {
  STARLING_CHECK(plane_.mixer != nullptr && !owns_.contains(exchange));
  auto own = std::make_shared<Own>(plane_.executor, partner.id);
  own->flow = flow_of(partner.id);
  const auto session =
      training::session_under(terms, exchange, plane_.links.hello().id.value, partner.id.value);
  own->offering.emplace(*plane_.mixer, session, plane_.counters.half_applied_chunks);
  owns_[exchange] = own;
  transport::spawn(plane_.executor, run(std::move(own), partner));
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
  own.abandoned = true;
  own.offering->abort();
  if (own.line) own.line->link->close();
  own.progress.raise();
  own.written.raise();
}

const Flow* Initiator::flow(PeerId partner) const {
  const auto found = flows_.find(partner);
  return found == flows_.end() ? nullptr : found->second.flow.get();
}

std::shared_ptr<Flow> Initiator::flow_of(PeerId partner) {
  auto found = flows_.find(partner);
  if (found == flows_.end()) {
    if (flows_.size() >= plane_.options.partners_max) {
      flows_.erase(std::ranges::min_element(flows_, {}, [](const auto& known) { return known.second.used; }));
    }
    const FlowOptions options{plane_.options.chunk_cells, plane_.options.window,
                              sizeof(float) * plane_.mixer->grid().cell_floats};
    found = flows_.try_emplace(partner, Known{std::make_shared<Flow>(options)}).first;
  }
  found->second.used = ++uses_;
  return found->second.flow;
}

asio::awaitable<void> Initiator::run(OwnPtr own, Endpoint partner) {
  if (own->abandoned) co_return;
  own->line = pool_.take(own->partner);
  if (own->line) {
    co_await attempt(own);
    if (own->abandoned) co_return;
    if (own->silent) {
      // The partner had closed the pooled connection before this exchange began: retry on a new one.
      ++plane_.counters.redials;
      retry(*own);
    }
  }
  if (!own->line) {
    auto dialed = co_await plane_.links.dial_bulk(partner);
    if (own->abandoned) {
      if (dialed) dialed->link->close();
      co_return;
    }
    if (dialed) {
      own->line = std::make_shared<Line>(plane_.executor, own->partner, dialed->link);
      co_await attempt(own);
      if (own->abandoned) co_return;
    }
  }
  finish(*own);
}

void Initiator::retry(Own& own) {
  own.line.reset();
  own.silent = own.writer_done = false;
  own.sent.clear();
  const training::Session session = own.offering->session();
  own.offering.emplace(*plane_.mixer, session, plane_.counters.half_applied_chunks);
}

void Initiator::finish(Own& own) {
  const Outcome outcome = outcome_of(own.offering->ending());
  if (outcome == Outcome::completed) {
    if (own.norm_square > 0) plane_.counters.distance = std::sqrt(own.distance_square / own.norm_square);
    plane_.counters.staleness.count(own.stale);
  }
  if (own.line && own.line->link->is_open() && !own.line->link->is_outdated()) pool_.rest(own.line);
  const gossip::ExchangeEnded ended{own.offering->session().exchange, outcome, own.round, own.quarantined};
  owns_.erase(ended.exchange);
  plane_.report(ended);
}

// One attempt, on own->line. At its end nothing is lent, and the writer is done.
asio::awaitable<void> Initiator::attempt(OwnPtr own) {
  own->line->link->expires_never();  // the core knows how long this partner may be silent, and aborts
  transport::spawn(plane_.executor, write(own));
  co_await read(own);
  if (own->abandoned) co_return;
  own->offering->abort();  // no effect if it has ended
  const auto ending = own->offering->ending();
  const bool usable = ending == Offering::Ending::completed || ending == Offering::Ending::rejected;
  if (!usable) own->line->link->close();
  own->progress.raise();
  while (!own->writer_done && !own->abandoned) co_await own->written.wait();
}

asio::awaitable<void> Initiator::write(OwnPtr own) {
  if (own->abandoned) co_return;
  const transport::LinkPtr link = own->line->link;
  Offering& offering = *own->offering;
  Flow& flow = *own->flow;
  flow.begin();
  bool good = (co_await transport::write_message(*link, offer_of(offering.session()))).ok();
  alignas(64) std::array<std::byte, wire::kChunkPrefixBytes> prefix;
  while (good) {
    const training::Cells cells = offering.next(flow.chunk_cells());
    if (cells.count == 0) break;
    if (offering.in_flight() >= flow.window()) {
      co_await own->progress.wait();
      continue;
    }
    Room room = plane_.rooms.take(plane_.mixer->room(cells));
    const auto parcel = offering.lend(cells, room.bytes());
    if (!parcel) {
      plane_.rooms.give(std::move(room));
      if (parcel.error().fault == training::MixFault::own_replica) plane_.diverge();
      link->close();  // the reader ends
      break;
    }
    own->sent.push_back(
        {std::move(room), flow.sent(Plane::now(), sizeof(float) * parcel->floats), plane_.steps()});
    transport::write_prefix(*link, head_of(*parcel, offering.session().exchange, wire::ChunkKind::offer),
                            parcel->values, prefix);
    own->write_pending = true;
    good = (co_await link->write(prefix, parcel->values)).ok();
    own->write_pending = false;
    if (good && !own->abandoned) plane_.rooms.give(std::exchange(own->writing, {}));
  }
  own->writer_done = true;
  own->written.raise();
}

wire::ExchangeOffer Initiator::offer_of(const training::Session& session) const {
  const training::CellGrid& grid = plane_.mixer->grid();
  return {session.exchange, plane_.fingerprint, grid.arena_floats,
          static_cast<std::uint32_t>(grid.cell_floats), session.round};
}

// Until the offering is over or the connection fails.
asio::awaitable<void> Initiator::read(OwnPtr own) {
  Offering& offering = *own->offering;
  const LinePtr line = own->line;
  while (!offering.over()) {
    const auto frame = co_await line->read();
    if (offering.over()) co_return;
    if (!frame) co_return fail(*own, frame.error());
    if (frame->kind == wire::FrameKind::control) co_return take_refusal(*own, *frame);
    if (!take_reply(*own, *frame)) co_return;
    own->progress.raise();
    if (offering.report_due())
      plane_.report(gossip::ExchangeAdvanced{offering.session().exchange, offering.cells_answered()});
  }
}

void Initiator::fail(Own& own, const transport::LinkError& error) {
  using Kind = transport::LinkErrorKind;
  own.silent = own.offering->cells_answered() == 0 &&
               (error.kind == Kind::closed_by_peer || error.kind == Kind::broken);
  plane_.links.note(error);
}

void Initiator::take_refusal(Own& own, const Frame& frame) {
  const auto message = transport::message_in(*own.line->link, frame);
  if (!message) return plane_.links.note(message.error());
  const auto* refusal = std::get_if<wire::ExchangeRefusal>(&*message);
  if (refusal == nullptr || refusal->exchange != own.offering->session().exchange) return;
  own.offering->refuse();
  if (own.offering->ending() != Offering::Ending::rejected) return;
  own.round = refusal->round;
  own.quarantined = refusal->reason == wire::RefusalReason::quarantined;
}

// False if the frame is not the reply that is due: the connection cannot be used any more.
bool Initiator::take_reply(Own& own, const Frame& frame) {
  Offering& offering = *own.offering;
  const auto& head = frame.chunk;
  if (head.kind != wire::ChunkKind::reply || head.exchange != offering.session().exchange ||
      own.sent.empty()) {
    ++plane_.counters.chunks_refused;
    return false;
  }
  const auto mixed = offering.take(parcel_of(frame));
  if (!mixed) {
    ++plane_.counters.chunks_refused;
    if (mixed.error().fault == training::MixFault::own_replica) plane_.diverge();
    return false;
  }
  Own::Sent sent = std::move(own.sent.front());
  own.sent.pop_front();
  own.stale = std::max(own.stale, plane_.steps() - sent.steps);
  own.distance_square += mixed->distance_square;
  own.norm_square += mixed->norm_square;
  own.flow->answered(Plane::now(), sent.when);
  if (own.write_pending && own.sent.empty()) {
    own.writing = std::move(sent.room);  // the writer returns it to the store
  } else {
    plane_.rooms.give(std::move(sent.room));
  }
  return true;
}

// ---- connections ----

asio::awaitable<transport::LinkResult<transport::Frame>> Line::read() {
  if (!watched) co_return co_await link->read();
  while (!first) co_await arrived.wait();
  auto frame = std::move(*first);
  first.reset();
  watched = false;
  co_return frame;
}

LinePtr LinePool::take(PeerId partner) {
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    const transport::Link& link = *(*it)->link;
    if ((*it)->remote != partner || !link.is_open() || link.is_outdated()) continue;
    LinePtr line = *it;
    idle_.erase(it);
    line->idle = false;
    return line;
  }
  return nullptr;
}

void LinePool::rest(LinePtr line) {
  line->link->expires_after(plane_.options.idle_limit);
  line->idle = true;
  line->watched = true;
  idle_.push_front(line);
  transport::spawn(plane_.executor, watch(std::move(line)));
  if (idle_.size() <= plane_.options.idle_max) return;
  idle_.back()->idle = false;
  idle_.back()->link->close();
  idle_.pop_back();
}

void LinePool::close() {
  for (auto& line : idle_) {
    line->idle = false;
    line->link->close();
  }
  idle_.clear();
}

asio::awaitable<void> LinePool::watch(LinePtr line) {
  line->first.emplace(co_await line->link->read());
  if (line->idle) {  // nothing may arrive on an idle line. The pool still exists, or it would not be idle
    line->idle = false;
    line->link->close();
    idle_.remove(line);
    co_return;
  }
  line->arrived.raise();
}

}  // namespace starling::node
