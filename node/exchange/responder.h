// The inbound bulk connections: answers the exchanges that other peers begin, as the core decides, and copies
// the parameters to joiners. training::Serving keeps the state of each exchange. One coroutine per connection
// reads a chunk, mixes it, writes the reply and reads the next one. So no chunk is read from a remote that
// does not read its replies, and no connection holds more than one chunk. gossip::AnswerBudget decides which
// answer or copy ends to make room for a new one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include <asio/awaitable.hpp>

#include "gossip/actions.h"
#include "gossip/meeting/answer_budget.h"
#include "node/exchange/plane.h"
#include "wire/messages.h"

namespace starling::node {

class Responder {
 public:
  explicit Responder(Plane& plane) : plane_(plane), budget_(plane.options.answers) {}

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
  void make_room(std::optional<gossip::AnswerBudget::Number> ending);
  asio::awaitable<void> run(ServerPtr server);
  asio::awaitable<bool> take(ServerPtr server, const transport::Frame& frame);
  asio::awaitable<bool> take_offer(ServerPtr server, wire::ExchangeOffer offer);
  asio::awaitable<std::optional<gossip::AnswerOffer>> decision_on(ServerPtr server,
                                                                  wire::ExchangeOffer offer);
  asio::awaitable<bool> take_chunk(ServerPtr server, const transport::Frame& frame);
  asio::awaitable<bool> give_state(ServerPtr server, wire::StateRequest request);
  asio::awaitable<bool> give_chunk(ServerPtr server, std::uint64_t offset, Bytes values);
  asio::awaitable<bool> give_trainer_state(ServerPtr server, training::CellGrid grid, wire::StateHead head);
  asio::awaitable<bool> give_chunks(ServerPtr server, training::CellGrid grid, std::size_t first);
  std::optional<wire::Refusal> refusal_of(const wire::StateRequest& request) const;

  Plane& plane_;
  std::map<std::uint64_t, ServerPtr> servers_;  // by age
  std::uint64_t next_server_ = 0;
  gossip::AnswerBudget budget_;  // numbers are those of servers
};

}  // namespace starling::node
