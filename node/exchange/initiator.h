// The exchanges that this peer begins: lends chunk after chunk, sends them, completes each with its reply. One
// coroutine writes and one reads, so both directions of a connection stream at once, a window of chunks apart.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include <asio/awaitable.hpp>

#include "gossip/actions.h"
#include "node/exchange/line.h"
#include "node/exchange/plane.h"
#include "node/exchange/flow.h"

namespace starling::node {

class Initiator {
 public:
  explicit Initiator(Plane& plane);

  // REQUIRES: there are parameters, and no exchange of this number is under way.
  void begin(std::uint64_t exchange, PeerId partner, const Address& address, const gossip::Terms& terms);
  void abort(std::uint64_t exchange);
  void close();

  std::size_t lines() const { return pool_.size(); }
  std::size_t under_way() const { return owns_.size(); }
  // Of the partner's link; null where nothing is known.
  const Flow* flow(PeerId partner) const;

 private:
  struct Own;
  using OwnPtr = std::shared_ptr<Own>;

  std::shared_ptr<Flow> flow_of(PeerId partner);
  void abandon(Own& own);
  void end_loans(Own& own, bool refused);
  void take_up_again(Own& own);
  asio::awaitable<void> run(OwnPtr own, Address address);
  asio::awaitable<void> attempt(OwnPtr own);
  asio::awaitable<void> write(OwnPtr own);
  asio::awaitable<void> read(OwnPtr own);
  bool take_reply(Own& own, const transport::Frame& frame);
  void take_refusal(Own& own, const transport::Frame& frame);
  void fail(Own& own, const transport::LinkError& error);

  Plane& plane_;
  LinePool pool_;
  std::map<std::uint64_t, OwnPtr> owns_;
  struct Known {
    std::shared_ptr<Flow> flow;
    std::uint64_t used = 0;  // the larger, the later
  };
  std::map<PeerId, Known> flows_;
  std::uint64_t uses_ = 0;
};

}  // namespace starling::node
