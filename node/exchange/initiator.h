// The exchanges that this peer begins, and the connections that it dialed for them and keeps for the next
// ones. training::Offering keeps the state of each exchange; this adds the connections, the retry on a new
// one, and the flow control. One coroutine writes and one reads, so both directions of a connection stream at
// once, a window of chunks apart.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include <asio/awaitable.hpp>

#include "gossip/actions.h"
#include "node/exchange/flow.h"
#include "node/exchange/plane.h"
#include "transport/coroutines.h"

namespace starling::node {

// One connection. While it is in the pool, a read is under way, which detects at once that the remote closes;
// the exchange that takes the line takes over that read.
struct Line {
  Line(const asio::any_io_executor& executor, PeerId id, transport::LinkPtr l)
      : remote(id), link(std::move(l)), arrived(executor) {}

  asio::awaitable<transport::LinkResult<transport::Frame>> read();

  PeerId remote;
  transport::LinkPtr link;
  bool idle = false;
  bool watched = false;  // the watcher's read is under way, or its result is in `first`
  std::optional<transport::LinkResult<transport::Frame>> first;
  transport::Signal arrived;
};
using LinePtr = std::shared_ptr<Line>;

// At most `idle_max` lines, each for at most `idle_limit` without use (ExchangerOptions).
class LinePool {
 public:
  explicit LinePool(Plane& plane) : plane_(plane) {}

  LinePtr take(PeerId partner);  // null: none is open
  void rest(LinePtr line);
  void close();
  std::size_t size() const { return idle_.size(); }

 private:
  asio::awaitable<void> watch(LinePtr line);

  Plane& plane_;
  std::list<LinePtr> idle_;  // the most recently used first
};

class Initiator {
 public:
  explicit Initiator(Plane& plane) : plane_(plane), pool_(plane) {}

  // REQUIRES: there are parameters, and no exchange with this number is under way.
  void begin(std::uint64_t exchange, const Endpoint& partner, const gossip::Terms& terms);
  void abort(std::uint64_t exchange);
  void close();

  std::size_t lines() const { return pool_.size(); }
  std::size_t under_way() const { return owns_.size(); }
  // Flow control of the link to this partner; null before the first exchange with it.
  const Flow* flow(PeerId partner) const;

 private:
  struct Own;
  using OwnPtr = std::shared_ptr<Own>;

  std::shared_ptr<Flow> flow_of(PeerId partner);
  void abandon(Own& own);
  void retry(Own& own);
  void finish(Own& own);
  wire::ExchangeOffer offer_of(const training::Session& session) const;
  asio::awaitable<void> run(OwnPtr own, Endpoint partner);
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
    std::uint64_t used = 0;  // value of uses_ at the latest exchange
  };
  std::map<PeerId, Known> flows_;
  std::uint64_t uses_ = 0;
};

}  // namespace starling::node
