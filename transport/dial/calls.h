// Connections with peers that cannot be dialed: bulk connections that are called for and answered, the
// answers to the calls of others, and tries to dial a peer. docs/PROTOCOL.md (Reach) describes the messages.
// Calls for control connections are routes of the link table. Part of the link table, on its executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include <asio/awaitable.hpp>

#include "base/ids.h"
#include "transport/dial/connector.h"
#include "wire/messages.h"

namespace starling::transport {

// A random number that is not 0, for Call::number.
std::uint64_t call_number();

// "X did not answer the call through its home Y (Z)".
LinkError unanswered(const Endpoint& to);

class Calls : public std::enable_shared_from_this<Calls> {
 public:
  static constexpr std::size_t kWaitingMax = 64;  // own calls for bulk connections
  static constexpr std::size_t kAnswersMax = 32;  // to calls of others, under way
  static constexpr std::size_t kTriesMax = 16;    // under way

  // `send` sends a control message; `on_bulk` gets the connections that are to be served.
  Calls(std::shared_ptr<Connector> connector, std::function<void(const Endpoint&, const wire::Message&)> send,
        Connector::Admitted on_bulk);

  // Has the peer called by its home to.via, which listens at to.address, and waits for its connection.
  // Errors: unreachable (no answer in time), busy (kWaitingMax).
  static asio::awaitable<LinkResult<BulkLink>> dial(std::shared_ptr<Calls> self, Endpoint to);

  // An inbound bulk connection with a number: the answer to a call of this peer, if it comes from the peer
  // that was called. All others are refused.
  void take_answer(LinkPtr link, wire::Hello remote);

  // Answers a call (LinkTable::answer_call).
  void answer(const Endpoint& to, wire::Purpose purpose, std::uint64_t number);

  // LinkTable::try_dial.
  static asio::awaitable<LinkStatus> try_dial(std::shared_ptr<Calls> self, Endpoint to);

  void close();  // the calls that wait fail
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting;
  static asio::awaitable<void> answer_bulk(std::shared_ptr<Calls> self, Endpoint to, std::uint64_t number);
  static asio::awaitable<void> answer_relay(std::shared_ptr<Calls> self, Endpoint to, std::uint64_t number);
  void end_answer(bool connected);

  std::shared_ptr<Connector> connector_;
  std::function<void(const Endpoint&, const wire::Message&)> send_;
  Connector::Admitted on_bulk_;
  std::map<std::uint64_t, std::shared_ptr<Waiting>> waiting_;  // by the number of the call
  std::size_t answers_ = 0;
  std::size_t tries_ = 0;
};

}  // namespace starling::transport
