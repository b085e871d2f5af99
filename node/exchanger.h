// The data plane: carries out the exchanges that the core decides on, and copies parameters to joiners, over
// bulk connections. It moves bytes and calls training::PairwiseMixer for the arithmetic; workers go on
// meanwhile. Everything runs on the daemon's one thread, a chunk at a time, so passes over a chunk are
// ordered and control messages never wait for a model. Both directions of a connection stream at once: each
// side has a coroutine that reads and one that writes. Whatever a remote does, what is queued for it stays
// within a window. The executor may go on after an Exchanger is destroyed; nothing is called then.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <asio/any_io_executor.hpp>

#include "base/time.h"
#include "gossip/events.h"
#include "models/arena.h"
#include "training/exchange.h"
#include "transport/link_table.h"

namespace starling::node {

struct ExchangerEvents {
  std::function<void(std::uint64_t exchange, gossip::Outcome)> on_ended;
  // Asks the core; its answer comes back through answer().
  std::function<void(PeerId from, std::uint64_t exchange)> on_offered;
  std::function<void(PeerId from, std::uint64_t exchange, bool completed, bool poisoned)> on_answer_ended;
  // After every chunk of a first copy: how many are in place, whoever they came from.
  std::function<void(std::uint64_t chunks, std::uint64_t total)> on_state_advanced;
  std::function<void()> on_state_arrived;
  std::function<void(std::string why, bool poisoned)> on_state_lost;
};

struct ExchangerOptions {
  std::size_t window = training::kDefaultWindow;  // chunks on their way in one direction of a connection
  Duration stall = std::chrono::seconds(15);      // a busy connection without progress for so long is closed
  // A connection that this peer dialled is closed after so long without an exchange, one that it accepted
  // after twice that: then the dialler is gone without a word.
  Duration idle_limit = std::chrono::seconds(30);
  std::size_t idle_max = 8;       // connections that it dialled, kept for the next exchange
  std::size_t servers_max = 64;   // inbound connections kept; the oldest idle one goes first
  std::size_t donations_max = 8;  // joiners that copy at once; others are told to ask another peer
};

struct ExchangerCounters {
  // Sent and not answered when an exchange broke off: the partner may have mixed them.
  std::uint64_t half_applied_chunks = 0;
  std::uint64_t chunks_refused = 0;   // received with a value, weight or length that may not touch the arena
  std::uint64_t chunks_answered = 0;  // of others' exchanges
  std::uint64_t chunks_overlapped = 0;  // among them: answered with the free half, at weight 1/4
  std::uint64_t redials = 0;  // a connection from the pool turned out to be dead: begun again on a new one
  std::optional<double> distance;  // |x - partner| / |x| at the last exchange of one's own
};

class Exchanger {
 public:
  // REQUIRES: options.window > 0.
  Exchanger(asio::any_io_executor executor, transport::LinkTable& links, ExchangerEvents events,
            ExchangerOptions options = {});
  ~Exchanger();
  Exchanger(const Exchanger&) = delete;
  Exchanger& operator=(const Exchanger&) = delete;

  // From here on there is an arena, which outlives the Exchanger. Before, every request is refused as
  // not_ready. `loss`: as in PairwiseMixer.
  void attach(models::Arena& arena, std::uint64_t fingerprint,
              std::size_t chunk_floats = training::kDefaultChunkFloats,
              training::PairwiseMixer::Loss loss = training::PairwiseMixer::Loss::tolerated);

  // Each ends in its event, unless close() or abort() comes first.
  void begin(std::uint64_t exchange, PeerId partner, const Address& address);
  void abort(std::uint64_t exchange);  // ends the loans; the connection is closed
  // Goes on at the first chunk that no donor has sent yet. REQUIRES: none is under way.
  void fetch_state(PeerId donor, const Address& address);
  void abort_fetch();  // if one is under way; what is in place stays, and another donor may be asked at once
  void answer(PeerId from, std::uint64_t exchange, bool accept, wire::RefusalReason reason);

  // An inbound bulk connection: serves offers and state requests until it closes.
  void serve(transport::LinkPtr link, wire::Hello remote);

  void close();  // closes every bulk connection; no event comes afterwards
  const ExchangerCounters& counters() const { return counters_; }
  std::size_t idle() const { return idle_.size(); }  // connections it dialled and keeps for the next time
  std::size_t servers() const { return servers_.size(); }  // inbound connections

 private:
  struct Line;
  struct Own;
  struct Server;
  struct Fetch;

  std::shared_ptr<Line> take_idle(PeerId partner);
  void rest(std::shared_ptr<Line> line);
  asio::awaitable<void> watch(std::shared_ptr<Line> line);
  void abandon(Own& own);
  asio::awaitable<void> run_own(std::shared_ptr<Own> own, Address address);
  asio::awaitable<gossip::Outcome> attempt(std::shared_ptr<Own> own);
  asio::awaitable<void> write_own(std::shared_ptr<Own> own);
  asio::awaitable<gossip::Outcome> read_own(std::shared_ptr<Own> own);
  void end_loans(Own& own, bool refused);
  asio::awaitable<void> run_server(std::shared_ptr<Server> server);
  static asio::awaitable<void> write_replies(std::shared_ptr<Server> server, Duration stall,
                                             Duration idle_limit);
  asio::awaitable<void> take_offer(std::shared_ptr<Server> server, wire::ExchangeOffer offer);
  void take_chunk(Server& server, const transport::Frame& frame);
  asio::awaitable<void> give_state(std::shared_ptr<Server> server, wire::StateRequest request);
  asio::awaitable<void> run_fetch(std::shared_ptr<Fetch> fetch, Address address);
  asio::awaitable<Status> copy_state(std::shared_ptr<Fetch> fetch, Address address);
  Status put_in_place(Fetch& fetch, const transport::Frame& frame);
  std::optional<wire::Refusal> refusal_of(const wire::StateRequest& request) const;
  void end_answer(Server& server);

  asio::any_io_executor executor_;
  transport::LinkTable& links_;
  ExchangerEvents events_;
  ExchangerOptions options_;
  models::Arena* arena_ = nullptr;
  std::optional<training::PairwiseMixer> mixer_;
  std::uint64_t fingerprint_ = 0;
  ExchangerCounters counters_;
  bool closed_ = false;

  std::shared_ptr<Own> own_;
  std::list<std::shared_ptr<Line>> idle_;  // the most recently used first
  std::map<std::uint64_t, std::weak_ptr<Server>> servers_;
  std::uint64_t next_server_ = 0;
  std::size_t donations_ = 0;  // under way
  std::shared_ptr<Fetch> fetch_;
  std::size_t in_place_ = 0;  // chunks of the first copy
};

}  // namespace starling::node
