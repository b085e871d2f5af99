// The data plane: performs the exchanges that the core decides on, and copies parameters to joiners, over
// bulk connections. It moves bytes and calls a training::Mixer for the arithmetic of any rule and payload;
// workers continue meanwhile. Everything runs on the daemon's one thread, a chunk at a time, so passes over a
// chunk are ordered and control messages never wait for a model. What is queued for a remote is bounded by a
// window. The executor may run on after an Exchanger is destroyed; it reports nothing then.
#pragma once

#include <functional>

#include <asio/any_io_executor.hpp>

#include "node/exchange/initiator.h"
#include "node/exchange/joiner.h"
#include "node/exchange/plane.h"
#include "node/exchange/responder.h"

namespace starling::node {

class Exchanger {
 public:
  // `report` gets the core's events of exchanges and copies (gossip/events.h): ExchangeEnded,
  // ExchangeAdvanced, ExchangeOffered (answer() decides, at once or later), AnswerEnded, StateAdvanced,
  // StateArrived, StateLost and ReplicaDiverged. `steps` counts the steps applied to the replica so far; by
  // default staleness is not counted. REQUIRES: options.window and chunk_cells are > 0 if they are set.
  Exchanger(
      asio::any_io_executor executor, transport::LinkTable& links, std::function<void(gossip::Event)> report,
      const ExchangerOptions& options = {},
      std::function<std::uint64_t()> steps = [] { return std::uint64_t{0}; });
  ~Exchanger() { close(); }
  Exchanger(const Exchanger&) = delete;
  Exchanger& operator=(const Exchanger&) = delete;

  // Gives it the arena and its mixer, which outlive it. Before, every request is refused as not_ready.
  void attach(models::Arena& arena, std::uint64_t fingerprint, training::Mixer& mixer,
              TrainerState trainer_state = {});
  // The arena's values must not be sent any more.
  void lost() { plane_.diverged = true; }
  // The arena was filled with new values, which may be sent again.
  void renewed() { plane_.diverged = plane_.copying = false; }

  // Ends in ExchangeEnded, unless close() or abort() comes first. Several exchanges with different partners
  // may be under way, as far as the rule's mixer lends a cell more than once.
  void begin(std::uint64_t exchange, const Endpoint& partner, const gossip::Terms& terms = {});
  // Ends the exchange's loans and closes its connection.
  void abort(std::uint64_t exchange) { initiator_.abort(exchange); }
  // Continues at the first chunk that no donor has sent yet; `afresh`: at the very first. Ends in
  // StateArrived or StateLost, unless close() or abort_fetch() comes first. REQUIRES: no fetch is under way.
  void fetch_state(const Endpoint& donor, bool afresh = false);
  // Aborts the fetch, if one is under way. The chunks in place stay, and another fetch may begin at once.
  void abort_fetch() { joiner_.abort(); }
  void answer(const gossip::AnswerOffer& answer) { responder_.answer(answer); }

  // Serves offers and state requests on an inbound bulk connection until it closes.
  void serve(transport::LinkPtr link, wire::Hello remote);

  void close();  // closes every bulk connection; nothing is reported afterwards
  const ExchangerCounters& counters() const { return plane_.counters; }
  std::size_t idle() const { return initiator_.lines(); }  // dialed connections kept for the next exchange
  std::size_t servers() const { return responder_.servers(); }  // inbound connections
  std::size_t under_way() const { return initiator_.under_way(); }
  std::size_t spare_bytes() const { return plane_.rooms.bytes(); }
  const Flow* flow(PeerId partner) const { return initiator_.flow(partner); }

 private:
  Plane plane_;
  Initiator initiator_{plane_};
  Responder responder_{plane_};
  Joiner joiner_{plane_};
  bool closed_ = false;
};

}  // namespace starling::node
