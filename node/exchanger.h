// The data plane: carries out the exchanges that the core decides on, and copies parameters to joiners, over
// bulk connections. It moves bytes and calls training::PairwiseMixer for the arithmetic; workers go on
// meanwhile. Everything runs on the daemon's one thread, a chunk at a time, so passes over a chunk are
// ordered and control messages never wait for a model. Both directions of a connection stream at once: each
// side has a coroutine that reads and one that writes.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <asio/any_io_executor.hpp>

#include "gossip/events.h"
#include "models/arena.h"
#include "training/exchange.h"
#include "transport/link_table.h"

namespace starling::node {

struct ExchangerEvents {
  std::function<void(std::uint64_t exchange, gossip::Outcome)> on_ended;
  // Asks the core; its answer comes back through answer().
  std::function<void(PeerId from, std::uint64_t exchange)> on_offered;
  std::function<void(PeerId from, std::uint64_t exchange)> on_answer_ended;
  std::function<void()> on_state_arrived;
  std::function<void(std::string why)> on_state_lost;
};

struct ExchangerCounters {
  std::uint64_t half_applied_chunks =
      0;  // sent and not answered when an exchange broke off: the partner may have mixed them
  std::uint64_t chunks_refused = 0;  // received with a value, weight or length that may not touch the arena
  std::optional<double> distance;    // |x - partner| / |x| at the last exchange of one's own
};

class Exchanger {
 public:
  Exchanger(asio::any_io_executor executor, transport::LinkTable& links, ExchangerEvents events,
            std::size_t window = training::kDefaultWindow);
  ~Exchanger();
  Exchanger(const Exchanger&) = delete;
  Exchanger& operator=(const Exchanger&) = delete;

  // From here on there is an arena. Before, every request is refused as not_ready.
  void attach(models::Arena& arena, std::uint64_t fingerprint,
              std::size_t chunk_floats = training::kDefaultChunkFloats);

  // Each ends in its event, unless close() or abort() comes first.
  void begin(std::uint64_t exchange, PeerId partner, const Address& address);
  void abort(std::uint64_t exchange);  // ends the loans; the connection is closed
  void fetch_state(PeerId donor, const Address& address);
  void answer(PeerId from, std::uint64_t exchange, bool accept, wire::RefusalReason reason);

  // An inbound bulk connection: serves offers and state requests until it closes.
  void serve(transport::LinkPtr link, wire::Hello remote);

  void close();  // closes every bulk connection; no event comes afterwards
  const ExchangerCounters& counters() const { return counters_; }

 private:
  struct Own;
  struct Server;

  asio::awaitable<void> run_own(std::shared_ptr<Own> own, Address address);
  asio::awaitable<void> write_own(std::shared_ptr<Own> own);
  asio::awaitable<gossip::Outcome> read_own(std::shared_ptr<Own> own);
  void end_loans(Own& own, bool mixed);
  asio::awaitable<void> run_server(std::shared_ptr<Server> server);
  asio::awaitable<void> write_replies(std::shared_ptr<Server> server);
  asio::awaitable<void> take_offer(std::shared_ptr<Server> server, wire::ExchangeOffer offer);
  asio::awaitable<void> take_chunk(std::shared_ptr<Server> server, transport::Frame frame);
  asio::awaitable<void> give_state(std::shared_ptr<Server> server, wire::StateRequest request);
  asio::awaitable<std::string> copy_state(PeerId donor, Address address);
  void end_answer(Server& server);

  asio::any_io_executor executor_;
  transport::LinkTable& links_;
  ExchangerEvents events_;
  std::size_t window_;
  models::Arena* arena_ = nullptr;
  std::optional<training::PairwiseMixer> mixer_;
  std::uint64_t fingerprint_ = 0;
  ExchangerCounters counters_;
  bool closed_ = false;

  std::shared_ptr<Own> own_;
  // Connections this peer dialled, idle, the most recently used first.
  std::list<std::pair<PeerId, transport::LinkPtr>> idle_;
  std::map<std::uint64_t, std::weak_ptr<Server>> servers_;
  std::uint64_t next_server_ = 0;
  transport::LinkPtr fetching_;
};

}  // namespace starling::node
