#include "node/greeting.h"

#include <asio/io_context.hpp>
#include <chrono>
#include <utility>

#include "transport/coroutines.h"
#include "transport/links/link_table.h"
#include "transport/links/tcp.h"
#include "transport/trust/handshake.h"
#include "transport/trust/identity.h"

namespace starling::node {
namespace {

constexpr Duration kReportLimit = std::chrono::seconds(12);  // the peer dials for up to 8 s
constexpr Duration kLimit = std::chrono::seconds(3);         // for each: the dial, the handshake

// The connections of a process that is not a member, and what it says about itself.
struct Visitor {
  // REQUIRES: `identity` outlives it.
  Visitor(const Identity& identity, const std::string& swarm,
          std::shared_ptr<const transport::TlsContext> tls)
      : transport(io.get_executor(), {.tls = std::move(tls)}) {
    self.identity = &identity;
    self.hello.swarm = swarm;
    self.hello.name = "doctor";
  }

  asio::io_context io;
  transport::TcpTransport transport;
  transport::Self self;
};

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
  Visitor visitor(**identity, swarm, std::move(tls));
  visitor.self.hello.purpose = wire::Purpose::bulk;
  std::optional<transport::LinkError> problem;
  transport::spawn(visitor.io.get_executor(),
                   say_hello(visitor.transport, peer, std::move(visitor.self), problem));
  visitor.io.run();
  return problem;
}

Result<DialedBack> ask_to_be_dialed(const Address& peer, const Address& listen, const std::string& swarm,
                                    std::shared_ptr<const transport::TlsContext> tls) {
  const auto identity = transport::Ed25519Identity::make_new(swarm);
  if (!identity) return identity.error();
  Visitor visitor(**identity, swarm, std::move(tls));
  visitor.self.hello.address = listen;
  asio::io_context& io = visitor.io;
  std::optional<DialedBack> report;
  std::string why = "it did not answer in time";
  transport::LinkTableEvents events;
  events.on_message = [&](PeerId, const Address&, const wire::Message& message) {
    if (const auto* its = std::get_if<wire::ReachReport>(&message)) {
      report = DialedBack{its->reached, its->address};
      io.stop();
    }
  };
  events.on_unreachable = [&](const Endpoint&, transport::LinkErrorKind, const std::string& sentence) {
    why = sentence;
    io.stop();
  };
  transport::LinkTable links(io.get_executor(), visitor.transport, std::move(visitor.self),
                             std::move(events));
  if (const auto listening = links.listen(listen); !listening) return listening.error();
  links.send({{}, peer}, wire::ReachRequest{1});
  io.run_for(kReportLimit);
  links.close();
  if (!report) return Error{why};
  return *report;
}

}  // namespace starling::node
