#include "node/exchanger.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <vector>

#include "base/check.h"

#include "transport/message_io.h"
#include "transport/signal.h"
#include "transport/spawn.h"
#include "wire/codec.h"

namespace starling::node {

using transport::Frame;
using transport::LinkPtr;

namespace {

std::span<float> floats_in(const Frame& frame) {
  // A link's buffer is aligned for floats, and the wire is little-endian IEEE 754, like the host.
  return {reinterpret_cast<float*>(frame.body.data()), frame.body.size() / sizeof(float)};
}

// Sums of squares of (a - b) and of a.
std::pair<double, double> distance_squares(std::span<const float> a, std::span<const float> b) {
  double differences = 0, norms = 0;
  constexpr std::size_t kBlock = 512;  // summed in float, then in double: quick and precise enough to look at
  for (std::size_t begin = 0; begin < a.size(); begin += kBlock) {
    const std::size_t end = std::min(a.size(), begin + kBlock);
    float d = 0, n = 0;
#pragma GCC ivdep
    for (std::size_t i = begin; i < end; ++i) {
      d += (a[i] - b[i]) * (a[i] - b[i]);
      n += a[i] * a[i];
    }
    differences += d;
    norms += n;
  }
  return {differences, norms};
}

}  // namespace

// A connection that this peer dialled. While it rests in the pool a read is under way, which notices at once
// when the remote closes; the exchange that takes the line takes that read over.
struct Exchanger::Line {
  Line(const asio::any_io_executor& executor, PeerId id, LinkPtr l)
      : remote(id), link(std::move(l)), arrived(executor) {}

  PeerId remote;
  LinkPtr link;
  bool idle = false;
  bool watched = false;  // the watcher's read is under way, or lies in `first`
  std::optional<transport::LinkResult<Frame>> first;
  transport::Signal arrived;

  asio::awaitable<transport::LinkResult<Frame>> read() {
    if (!watched) co_return co_await link->read();
    while (!first) co_await arrived.wait();
    auto frame = std::move(*first);
    first.reset();
    watched = false;
    co_return frame;
  }
};

// An exchange of one's own. Chunk k's snapshot lies in slot k mod window: replies come in order, so the slot
// is free when chunk k + window is sent.
struct Exchanger::Own {
  Own(const asio::any_io_executor& executor, std::uint64_t id, PeerId with)
      : exchange(id), partner(with), progress(executor), written(executor) {}

  std::uint64_t exchange;
  PeerId partner;
  std::shared_ptr<Line> line;
  std::vector<std::vector<float>> slots;
  std::size_t sent = 0;      // chunks whose sending has begun
  std::size_t answered = 0;  // chunks whose reply has been mixed
  bool over = false;         // nothing more may be lent, sent or mixed
  bool abandoned = false;    // by abort() or close(): the Exchanger, if there still is one, knows it no more
  bool silent = false;       // the connection ended before the first word came back
  bool writer_done = false;
  transport::Signal progress;  // a reply came, or it is over
  transport::Signal written;   // the writer is done
  double differences = 0, norms = 0;
};

// A joiner's first copy, under way.
struct Exchanger::Fetch {
  PeerId donor;
  LinkPtr link;
  bool abandoned = false;
  bool poisoned = false;
};

// An inbound connection: at most one offer is answered on it at a time, in order.
struct Exchanger::Server {
  Server(const asio::any_io_executor& executor, LinkPtr l, wire::Hello hello)
      : link(std::move(l)), remote(std::move(hello)), queued(executor), decided(executor), room(executor) {}

  LinkPtr link;
  wire::Hello remote;
  std::optional<std::uint64_t> answering;
  std::size_t next_chunk = 0;
  bool poisoned = false;  // by the offer that is answered
  std::optional<std::pair<bool, wire::RefusalReason>> decision;
  std::optional<std::uint64_t> asked;

  struct Outgoing {
    std::optional<wire::Message> message;  // or, without one, a chunk:
    wire::ChunkHead head;
    std::vector<float> values;
  };
  std::deque<Outgoing> outgoing;
  std::vector<std::vector<float>> spare;  // buffers of chunks that have been written
  bool giving = false;                    // state
  bool closed = false;                    // by the Exchanger, which may be gone; or the reader has ended
  transport::Signal queued, decided, room;

  std::vector<float> buffer(std::size_t floats) {
    std::vector<float> values;
    if (!spare.empty()) {
      values = std::move(spare.back());
      spare.pop_back();
    }
    values.resize(floats);
    return values;
  }
  // Nothing is on its way in either direction.
  bool resting() const { return !answering && !asked && outgoing.empty() && !giving; }
  void push(Outgoing item) {
    outgoing.push_back(std::move(item));
    queued.raise();
  }
};

Exchanger::Exchanger(asio::any_io_executor executor, transport::LinkTable& links, ExchangerEvents events,
                     ExchangerOptions options)
    : executor_(std::move(executor)), links_(links), events_(std::move(events)), options_(options) {
  STARLING_CHECK(options_.window > 0);
}

Exchanger::~Exchanger() {
  close();
}

void Exchanger::attach(models::Arena& arena, std::uint64_t fingerprint, std::size_t chunk_floats,
                       training::PairwiseMixer::Loss loss) {
  STARLING_CHECK(!mixer_);
  arena_ = &arena;
  fingerprint_ = fingerprint;
  mixer_.emplace(arena, chunk_floats, loss);
}

void Exchanger::close() {
  if (closed_) return;
  closed_ = true;
  if (own_) abandon(*own_);
  for (auto& line : idle_) {
    line->idle = false;
    line->link->close();
  }
  idle_.clear();
  for (auto& [key, weak] : servers_) {
    if (const auto server = weak.lock()) {
      server->closed = true;
      server->link->close();
      server->queued.raise();
      server->room.raise();
      server->decided.raise();
    }
  }
  servers_.clear();
  abort_fetch();
}

// ---- the pool of connections ----

std::shared_ptr<Exchanger::Line> Exchanger::take_idle(PeerId partner) {
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    if ((*it)->remote != partner || !(*it)->link->is_open()) continue;
    auto line = *it;
    idle_.erase(it);
    line->idle = false;
    return line;
  }
  return nullptr;
}

void Exchanger::rest(std::shared_ptr<Line> line) {
  line->link->expires_after(options_.idle_limit);
  line->idle = true;
  line->watched = true;
  idle_.push_front(line);
  transport::spawn(executor_, watch(std::move(line)));
  if (idle_.size() <= options_.idle_max) return;
  idle_.back()->idle = false;
  idle_.back()->link->close();
  idle_.pop_back();
}

asio::awaitable<void> Exchanger::watch(std::shared_ptr<Line> line) {
  line->first.emplace(co_await line->link->read());
  if (line->idle) {  // whatever came: nothing may come now
    line->idle = false;
    line->link->close();
    idle_.remove(line);
    co_return;
  }
  line->arrived.raise();
}

// ---- exchanges of one's own ----

void Exchanger::begin(std::uint64_t exchange, PeerId partner, const Address& address) {
  STARLING_CHECK(mixer_ && !own_ && !closed_);
  own_ = std::make_shared<Own>(executor_, exchange, partner);
  own_->slots.resize(options_.window);
  transport::spawn(executor_, run_own(own_, address));
}

void Exchanger::abort(std::uint64_t exchange) {
  if (own_ && own_->exchange == exchange) abandon(*own_);
}

void Exchanger::abandon(Own& own) {
  own.over = own.abandoned = true;
  end_loans(own, false);
  if (own.line) own.line->link->close();
  own.progress.raise();
  own.written.raise();
  own_.reset();
}

void Exchanger::end_loans(Own& own, bool refused) {
  const std::size_t out = own.sent - own.answered;
  for (std::size_t chunk = own.answered; chunk < own.sent; ++chunk) mixer_->give_up(chunk);
  if (!refused) counters_.half_applied_chunks += out;
  own.sent = own.answered;
}

asio::awaitable<void> Exchanger::run_own(std::shared_ptr<Own> own, Address address) {
  if (own->abandoned) co_return;
  gossip::Outcome outcome = gossip::Outcome::aborted;
  own->line = take_idle(own->partner);
  if (own->line) {
    outcome = co_await attempt(own);
    if (own->abandoned) co_return;
    if (own->silent) {
      // The remote had closed it, and the news came too late for the watcher: a new one gets its chance.
      ++counters_.redials;
      own->line.reset();
      own->over = own->silent = own->writer_done = false;
    }
  }
  if (!own->line) {
    auto dialled = co_await links_.dial_bulk(address);
    if (own->abandoned) {
      if (dialled) dialled->link->close();
      co_return;
    }
    if (dialled && dialled->remote.id == own->partner) {
      own->line = std::make_shared<Line>(executor_, own->partner, dialled->link);
      outcome = co_await attempt(own);
      if (own->abandoned) co_return;
    } else if (dialled) {
      dialled->link->close();  // another instance listens there now
    }
  }
  if (outcome == gossip::Outcome::completed && own->norms > 0) {
    counters_.distance = std::sqrt(own->differences / own->norms);
  }
  if (own->line && own->line->link->is_open()) rest(own->line);
  own_.reset();
  events_.on_ended(own->exchange, outcome);
}

// One try, on own->line: afterwards nothing is lent, and the writer is done.
asio::awaitable<gossip::Outcome> Exchanger::attempt(std::shared_ptr<Own> own) {
  own->line->link->expires_after(options_.stall);
  transport::spawn(executor_, write_own(own));
  const auto outcome = co_await read_own(own);
  if (own->abandoned) co_return outcome;
  own->over = true;
  end_loans(*own, outcome == gossip::Outcome::rejected);
  const bool usable = outcome == gossip::Outcome::completed || outcome == gossip::Outcome::rejected;
  if (!usable) own->line->link->close();
  own->progress.raise();
  while (!own->writer_done && !own->abandoned) co_await own->written.wait();
  co_return outcome;
}

asio::awaitable<void> Exchanger::write_own(std::shared_ptr<Own> own) {
  if (own->abandoned) co_return;
  const auto line = own->line;
  const auto grid = mixer_->grid();
  const std::size_t window = options_.window;
  wire::ExchangeOffer offer;
  offer.exchange = own->exchange;
  offer.fingerprint = fingerprint_;
  offer.arena_floats = grid.arena_floats;
  offer.cell_floats = static_cast<std::uint32_t>(grid.chunk_floats);
  bool good = (co_await transport::write_message(*line->link, offer)).ok();
  for (std::size_t chunk = 0; good && chunk < grid.count(); ++chunk) {
    while (!own->over && chunk - own->answered >= window) co_await own->progress.wait();
    if (own->over) break;
    auto& snapshot = own->slots[chunk % window];
    snapshot.resize(grid.floats(chunk));
    mixer_->lend(chunk, snapshot);
    own->sent = chunk + 1;
    wire::ChunkHead head;
    head.exchange = own->exchange;
    head.offset = grid.offset(chunk);
    head.floats = static_cast<std::uint32_t>(snapshot.size());
    head.kind = wire::ChunkKind::offer;
    good = (co_await transport::write_chunk(*line->link, head, std::as_bytes(std::span(snapshot)))).ok();
  }
  own->writer_done = true;
  own->written.raise();
}

asio::awaitable<gossip::Outcome> Exchanger::read_own(std::shared_ptr<Own> own) {
  const auto grid = mixer_->grid();
  const auto line = own->line;
  for (std::size_t chunk = 0; chunk < grid.count(); ++chunk) {
    auto frame = co_await line->read();
    if (own->over) co_return gossip::Outcome::aborted;
    if (!frame) {
      using Kind = transport::LinkErrorKind;
      const Kind kind = frame.error().kind;
      own->silent = chunk == 0 && (kind == Kind::closed_by_peer || kind == Kind::broken);
      links_.note(frame.error());
      co_return gossip::Outcome::aborted;
    }
    if (frame->kind == wire::FrameKind::control) {
      const auto message = transport::message_in(*line->link, *frame);
      if (!message) {
        links_.note(message.error());
        co_return gossip::Outcome::aborted;
      }
      const auto* refusal = std::get_if<wire::ExchangeRefusal>(&*message);
      if (refusal != nullptr && refusal->exchange == own->exchange && chunk == 0)
        co_return gossip::Outcome::rejected;
      co_return gossip::Outcome::aborted;
    }
    line->link->expires_after(options_.stall);
    const auto& head = frame->chunk;
    const auto theirs = floats_in(*frame);
    if (head.kind != wire::ChunkKind::reply || head.exchange != own->exchange ||
        head.offset != grid.offset(chunk) || chunk >= own->sent) {
      ++counters_.chunks_refused;
      co_return gossip::Outcome::aborted;
    }
    const auto& mine = own->slots[chunk % options_.window];
    if (head.weight != 0 && theirs.size() == mine.size()) {
      const auto [differences, norms] = distance_squares(mine, theirs);
      own->differences += differences;
      own->norms += norms;
    }
    if (const auto mixed = mixer_->complete(chunk, theirs, head.weight); !mixed) {
      ++counters_.chunks_refused;
      co_return mixed.error().poisoned ? gossip::Outcome::poisoned : gossip::Outcome::aborted;
    }
    own->answered = chunk + 1;
    own->progress.raise();
  }
  co_return gossip::Outcome::completed;
}

// ---- answering others ----

void Exchanger::serve(LinkPtr link, wire::Hello remote) {
  if (closed_) return link->close();
  if (servers_.size() >= options_.servers_max) {
    const auto resting = std::find_if(servers_.begin(), servers_.end(), [](const auto& entry) {
      const auto server = entry.second.lock();
      return server && server->resting() && server->link->is_open();
    });
    if (resting == servers_.end()) return link->close();
    resting->second.lock()->link->close();  // its reader ends
  }
  auto server = std::make_shared<Server>(executor_, std::move(link), std::move(remote));
  const std::uint64_t key = next_server_++;
  servers_[key] = server;
  transport::spawn(executor_, write_replies(server, options_.stall, 2 * options_.idle_limit));
  transport::spawn(executor_,
                   [](Exchanger* self, std::shared_ptr<Server> s, std::uint64_t k) -> asio::awaitable<void> {
                     co_await self->run_server(s);
                     if (s->closed) co_return;  // by close(): the Exchanger may be gone
                     s->closed = true;
                     s->link->close();
                     s->queued.raise();
                     self->servers_.erase(k);
                     self->end_answer(*s);
                   }(this, server, key));
}

void Exchanger::answer(PeerId from, std::uint64_t exchange, bool accept, wire::RefusalReason reason) {
  for (auto& [key, weak] : servers_) {
    const auto server = weak.lock();
    if (!server || server->remote.id != from || server->asked != exchange || server->decision) continue;
    server->decision = {accept, reason};
    server->decided.raise();
    return;
  }
}

void Exchanger::end_answer(Server& server) {
  if (!server.answering) return;
  const std::uint64_t exchange = *server.answering;
  server.answering.reset();
  const bool completed = server.next_chunk == mixer_->grid().count();
  events_.on_answer_ended(server.remote.id, exchange, completed, server.poisoned);
}

asio::awaitable<void> Exchanger::run_server(std::shared_ptr<Server> server) {
  while (!server->closed) {
    auto frame = co_await server->link->read();
    if (server->closed) co_return;
    if (!frame) {
      using Kind = transport::LinkErrorKind;
      const Kind kind = frame.error().kind;
      const bool forgotten = kind == Kind::timed_out && server->resting();
      if (kind != Kind::closed && kind != Kind::closed_by_peer && !forgotten) links_.note(frame.error());
      co_return;
    }
    // Whatever comes may need an answer; a remote that reads none gets no hearing.
    while (server->outgoing.size() >= options_.window && !server->closed) co_await server->room.wait();
    if (server->closed) co_return;
    if (frame->kind == wire::FrameKind::chunk) {
      take_chunk(*server, *frame);
      continue;
    }
    auto message = transport::message_in(*server->link, *frame);
    if (!message) {
      links_.note(message.error());
      co_return;
    }
    if (const auto* offer = std::get_if<wire::ExchangeOffer>(&*message)) {
      co_await take_offer(server, *offer);
    } else if (const auto* request = std::get_if<wire::StateRequest>(&*message)) {
      co_await give_state(server, *request);
    } else {
      co_return;  // nothing else belongs here
    }
  }
}

asio::awaitable<void> Exchanger::take_offer(std::shared_ptr<Server> server, wire::ExchangeOffer offer) {
  end_answer(*server);  // an offer behind a half-served one: the initiator has given that up
  if (server->closed) co_return;
  const auto refuse = [&](wire::RefusalReason reason) {
    server->push({wire::Message(wire::ExchangeRefusal{offer.exchange, reason}), {}, {}});
  };
  if (!mixer_) {
    refuse(wire::RefusalReason::not_ready);
    co_return;
  }
  const auto& grid = mixer_->grid();
  if (offer.fingerprint != fingerprint_ || offer.arena_floats != grid.arena_floats ||
      offer.cell_floats != grid.chunk_floats) {
    refuse(wire::RefusalReason::wrong_model);
    co_return;
  }
  server->asked = offer.exchange;
  server->decision.reset();
  events_.on_offered(server->remote.id, offer.exchange);
  while (!server->decision && !server->closed) co_await server->decided.wait();
  if (server->closed) co_return;
  const auto [accept, reason] = *server->decision;
  server->asked.reset();
  if (!accept) {
    refuse(reason);
    co_return;
  }
  server->answering = offer.exchange;
  server->next_chunk = 0;
  server->poisoned = false;
  server->link->expires_after(options_.stall);
}

void Exchanger::take_chunk(Server& server, const Frame& frame) {
  const auto& head = frame.chunk;
  // Chunks of an exchange that was refused or ended are read and dropped.
  if (!server.answering || head.exchange != *server.answering || head.kind != wire::ChunkKind::offer) return;
  server.link->expires_after(options_.stall);
  const auto& grid = mixer_->grid();
  const std::size_t chunk = server.next_chunk;
  auto value = server.buffer(grid.floats(chunk));
  const auto weight = head.offset == grid.offset(chunk) ? mixer_->answer(chunk, floats_in(frame), value)
                                                        : training::ChunkError{{"a chunk out of order"}};
  if (!weight) {
    ++counters_.chunks_refused;
    server.poisoned = weight.error().poisoned;
    server.link->close();  // what follows would be as unusable; the reader ends
    return;
  }
  ++counters_.chunks_answered;
  if (*weight == 0.25f) ++counters_.chunks_overlapped;
  wire::ChunkHead reply;
  reply.exchange = *server.answering;
  reply.offset = head.offset;
  reply.floats = static_cast<std::uint32_t>(value.size());
  reply.kind = wire::ChunkKind::reply;
  reply.weight = *weight;
  server.push({std::nullopt, reply, std::move(value)});
  if (++server.next_chunk == grid.count()) end_answer(server);
}

asio::awaitable<void> Exchanger::write_replies(std::shared_ptr<Server> server, Duration stall,
                                               Duration idle_limit) {
  while (!server->closed) {
    if (server->outgoing.empty()) {
      if (server->resting()) {
        server->link->expires_after(idle_limit);
        server->spare.clear();
      }
      co_await server->queued.wait();
      continue;
    }
    server->link->expires_after(stall);
    Server::Outgoing item = std::move(server->outgoing.front());
    // Not as a conditional expression: GCC 12 destroys what its co_await yields twice.
    transport::LinkStatus status = Done{};
    if (item.message) {
      status = co_await transport::write_message(*server->link, std::move(*item.message));
    } else {
      status =
          co_await transport::write_chunk(*server->link, item.head, std::as_bytes(std::span(item.values)));
    }
    if (server->closed) co_return;
    server->outgoing.pop_front();
    if (!item.values.empty()) server->spare.push_back(std::move(item.values));
    server->room.raise();
    if (!status) {
      server->link->close();  // the reader ends
      co_return;
    }
  }
}

// ---- a joiner's first copy ----

// Why this peer gives no parameters now, if so.
std::optional<wire::Refusal> Exchanger::refusal_of(const wire::StateRequest& request) const {
  using Reason = wire::RefusalReason;
  if (!mixer_) return wire::Refusal{Reason::not_ready, "this peer has no parameters yet"};
  if (request.fingerprint != fingerprint_)
    return wire::Refusal{Reason::wrong_model, "this peer's model has another layout"};
  if (request.chunk_floats == 0 || request.chunk_floats > wire::kChunkFloatsMax)
    return wire::Refusal{Reason::malformed, "a chunk holds 1 to 2^18 floats"};
  if (donations_ >= options_.donations_max)
    return wire::Refusal{Reason::busy, "this peer gives its parameters to enough others at the moment"};
  return std::nullopt;
}

asio::awaitable<void> Exchanger::give_state(std::shared_ptr<Server> server, wire::StateRequest request) {
  if (auto refusal = refusal_of(request)) {
    server->push({wire::Message(std::move(*refusal)), {}, {}});
    co_return;
  }
  server->giving = true;
  ++donations_;
  const training::ChunkGrid grid{arena_->size(), request.chunk_floats};
  wire::StateHead state;
  state.arena_floats = grid.arena_floats;
  state.chunks = grid.count() - std::min<std::uint64_t>(request.first_chunk, grid.count());
  server->push({wire::Message(state), {}, {}});
  for (std::size_t chunk = grid.count() - state.chunks; chunk < grid.count(); ++chunk) {
    while (server->outgoing.size() >= options_.window && !server->closed && server->link->is_open()) {
      co_await server->room.wait();
    }
    if (server->closed) co_return;  // by close(): the Exchanger may be gone
    if (!server->link->is_open()) break;
    auto values = server->buffer(grid.floats(chunk));
    arena_->read(grid.offset(chunk), values);
    wire::ChunkHead head;
    head.offset = grid.offset(chunk);
    head.floats = static_cast<std::uint32_t>(values.size());
    head.kind = wire::ChunkKind::state;
    server->push({std::nullopt, head, std::move(values)});
  }
  server->giving = false;
  --donations_;
}

void Exchanger::fetch_state(PeerId donor, const Address& address) {
  STARLING_CHECK(mixer_ && !fetch_ && !closed_);
  fetch_ = std::make_shared<Fetch>();
  fetch_->donor = donor;
  transport::spawn(executor_, run_fetch(fetch_, address));
}

void Exchanger::abort_fetch() {
  if (!fetch_) return;
  fetch_->abandoned = true;
  if (fetch_->link) fetch_->link->close();
  fetch_.reset();
}

asio::awaitable<void> Exchanger::run_fetch(std::shared_ptr<Fetch> fetch, Address address) {
  if (fetch->abandoned) co_return;
  const Status copied = co_await copy_state(fetch, address);
  if (fetch->link) fetch->link->close();
  if (fetch->abandoned) co_return;
  fetch_.reset();
  if (copied) {
    in_place_ = 0;  // should it ever be asked for again, it is a new copy
    events_.on_state_arrived();
  } else {
    events_.on_state_lost("copying parameters from " + to_string(address) + ": " + copied.error().message,
                          fetch->poisoned);
  }
}

asio::awaitable<Status> Exchanger::copy_state(std::shared_ptr<Fetch> fetch, Address address) {
  const Error given_up{"given up"};  // nobody hears of it
  auto dialled = co_await links_.dial_bulk(address);
  if (!dialled) co_return dialled.error();
  const LinkPtr link = fetch->link = dialled->link;
  if (fetch->abandoned) co_return given_up;
  if (dialled->remote.id != fetch->donor) co_return Error{"another peer listens there now"};
  const auto grid = mixer_->grid();
  const std::size_t first = in_place_;
  wire::StateRequest request;
  request.fingerprint = fingerprint_;
  request.chunk_floats = static_cast<std::uint32_t>(grid.chunk_floats);
  request.first_chunk = first;
  link->expires_after(options_.stall);
  if (const auto written = co_await transport::write_message(*link, request); !written)
    co_return written.error();
  const auto answer = co_await transport::read_message(*link);
  if (fetch->abandoned) co_return given_up;
  if (!answer) co_return answer.error();
  if (const auto* refusal = std::get_if<wire::Refusal>(&*answer)) co_return Error{refusal->text};
  const auto* head = std::get_if<wire::StateHead>(&*answer);
  if (head == nullptr || head->arena_floats != grid.arena_floats || head->chunks != grid.count() - first) {
    co_return Error{"it offers parameters of another length"};
  }
  for (std::size_t chunk = first; chunk < grid.count(); ++chunk) {
    const auto frame = co_await link->read();
    if (fetch->abandoned) co_return given_up;
    if (!frame) {
      links_.note(frame.error());
      co_return frame.error();
    }
    link->expires_after(options_.stall);
    if (Status placed = put_in_place(*fetch, *frame); !placed) co_return placed;
    events_.on_state_advanced(in_place_, grid.count());
    if (fetch->abandoned) co_return given_up;  // by whoever was told
  }
  co_return Done{};
}

// The next chunk of the copy, if this frame is it.
Status Exchanger::put_in_place(Fetch& fetch, const Frame& frame) {
  const auto& grid = mixer_->grid();
  const auto& head = frame.chunk;
  if (frame.kind != wire::FrameKind::chunk || head.kind != wire::ChunkKind::state ||
      head.offset != grid.offset(in_place_) || head.floats != grid.floats(in_place_)) {
    return Error{"a chunk came out of order"};
  }
  const auto values = floats_in(frame);
  if (!training::all_acceptable(values)) {
    ++counters_.chunks_refused;
    fetch.poisoned = true;
    return Error{"its parameters are not finite, or beyond 2^60"};
  }
  arena_->write(head.offset, values);
  ++in_place_;
  return Done{};
}

}  // namespace starling::node
