// The data plane: carries out the exchanges that the core decides on, and copies parameters to joiners, over
// bulk connections. It moves bytes and calls a training::Mixer for the arithmetic, whatever the rule and the
// payload; workers go on meanwhile. Everything runs on the daemon's one thread, a chunk at a time, so passes
// over a chunk are ordered and control messages never wait for a model. Whatever a remote does, what is
// queued for it stays within a window. The executor may go on after an Exchanger is destroyed; nothing is
// called then. Its parts are in node/exchange: initiator.h, responder.h, joiner.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include <asio/any_io_executor.hpp>

#include "node/exchange/events.h"
#include "node/exchange/initiator.h"
#include "node/exchange/joiner.h"
#include "node/exchange/plane.h"
#include "node/exchange/responder.h"

namespace starling::node {

class Exchanger {
 public:
  // REQUIRES: what is fixed in options is > 0.
  Exchanger(asio::any_io_executor executor, transport::LinkTable& links, ExchangerEvents events,
            ExchangerOptions options = {});
  ~Exchanger();
  Exchanger(const Exchanger&) = delete;
  Exchanger& operator=(const Exchanger&) = delete;

  // From here on there are an arena and its mixer, which outlive the Exchanger. Before, every request is
  // refused as not_ready.
  void attach(models::Arena& arena, std::uint64_t fingerprint, training::Mixer& mixer);
  // The arena was filled anew: it gives what it holds again.
  void renewed() { plane_.diverged = plane_.copying = false; }

  // Each ends in its event, unless close() or abort() comes first. Several may be under way, with different
  // partners, as far as the rule's mixer lends a cell more than once.
  void begin(std::uint64_t exchange, PeerId partner, const Address& address, const gossip::Terms& terms = {});
  void abort(std::uint64_t exchange);  // ends the loans; the connection is closed
  // Goes on at the first chunk that no donor has sent yet, or, `afresh`, at the very first. REQUIRES: none is
  // under way.
  void fetch_state(PeerId donor, const Address& address, bool afresh = false);
  void abort_fetch();  // if one is under way; what is in place stays, and another donor may be asked at once
  void answer(const gossip::AnswerOffer& answer);

  // An inbound bulk connection: serves offers and state requests until it closes.
  void serve(transport::LinkPtr link, wire::Hello remote);

  void close();  // closes every bulk connection; no event comes afterwards
  const ExchangerCounters& counters() const { return plane_.counters; }
  std::size_t idle() const { return initiator_.lines(); }  // connections it dialled and keeps for the next time
  std::size_t servers() const { return responder_.servers(); }  // inbound connections
  std::size_t under_way() const { return initiator_.under_way(); }
  std::size_t spare_bytes() const { return plane_.rooms.bytes(); }  // kept for the next chunks
  const Flow* flow(PeerId partner) const { return initiator_.flow(partner); }

 private:
  Plane plane_;
  Initiator initiator_;
  Responder responder_;
  Joiner joiner_;
  bool closed_ = false;
};

}  // namespace starling::node
