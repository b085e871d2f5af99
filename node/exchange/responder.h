// The connections that others dialled: answers the exchanges that they begin, as the core decides, and gives
// joiners their copy. One coroutine a connection: it reads a chunk, mixes, writes the reply, and reads on, so
// that a remote which does not read is not heard, and no more than one chunk is kept for anyone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include <asio/awaitable.hpp>

#include "gossip/actions.h"
#include "node/exchange/plane.h"
#include "wire/messages.h"

namespace starling::node {

class Responder {
 public:
  explicit Responder(Plane& plane) : plane_(plane) {}

  // Serves until the connection closes.
  void serve(transport::LinkPtr link, wire::Hello remote);
  // The core's decision on an offer.
  void answer(const gossip::AnswerOffer& answer);
  void close();
  std::size_t servers() const { return servers_.size(); }

 private:
  struct Server;
  using ServerPtr = std::shared_ptr<Server>;

  bool make_place();
  void end_answer(Server& server);
  asio::awaitable<void> run(ServerPtr server);
  asio::awaitable<bool> take(ServerPtr server, const transport::Frame& frame);
  asio::awaitable<bool> take_offer(ServerPtr server, wire::ExchangeOffer offer);
  asio::awaitable<bool> take_chunk(ServerPtr server, const transport::Frame& frame);
  asio::awaitable<bool> give_state(ServerPtr server, wire::StateRequest request);
  std::optional<wire::Refusal> refusal_of(const wire::StateRequest& request) const;

  Plane& plane_;
  std::map<std::uint64_t, ServerPtr> servers_;  // by age
  std::uint64_t next_server_ = 0;
  std::size_t donations_ = 0;  // under way
};

}  // namespace starling::node
