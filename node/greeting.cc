#include "node/greeting.h"

#include <asio/io_context.hpp>
#include <chrono>
#include <utility>

#include "transport/coroutines.h"
#include "transport/handshake.h"
#include "transport/identity.h"
#include "transport/tcp.h"

namespace starling::node {
namespace {

constexpr Duration kLimit = std::chrono::seconds(3);  // for each: the dial, the handshake

asio::awaitable<void> say_hello(transport::TcpTransport& transport, const Address& peer, transport::Self mine,
                                std::optional<transport::LinkError>& problem) {
  auto dialed = co_await transport.dial(peer, kLimit);
  if (!dialed.ok()) {
    problem = dialed.error();
    co_return;
  }
  const transport::LinkPtr link = *dialed;
  auto answer = co_await transport::introduce(*link, std::move(mine), kLimit);
  if (!answer.ok()) problem = answer.error();
  link->close();
}

}  // namespace

std::optional<transport::LinkError> greet(const Address& peer, const std::string& swarm,
                                          std::shared_ptr<const transport::TlsContext> tls) {
  const auto identity = transport::Ed25519Identity::make_new(swarm);
  if (!identity) return transport::LinkError{identity.error(), transport::LinkErrorKind::broken};
  asio::io_context io;
  transport::TcpTransport transport(io.get_executor(), {.tls = std::move(tls)});
  transport::Self mine;
  mine.identity = identity->get();
  mine.hello.swarm = swarm;
  mine.hello.name = "doctor";
  mine.hello.address = {"127.0.0.1", 1};  // no peer dials back to a bulk connection
  mine.hello.purpose = wire::Purpose::bulk;
  std::optional<transport::LinkError> problem;
  transport::spawn(io.get_executor(), say_hello(transport, peer, std::move(mine), problem));
  io.run();
  return problem;
}

}  // namespace starling::node
