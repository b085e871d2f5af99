#include "node/peer/connections.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include <spdlog/spdlog.h>

#include "node/peer/entropy.h"
#include "training/replica/recipe.h"

namespace starling::node {
namespace {

constexpr Duration kHandshakeLimit = std::chrono::seconds(3);

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "peer";
  return name;
}

transport::TcpOptions with_key(const PeerOptions& options) {
  transport::TcpOptions tcp;
  tcp.tls = options.tls;
  return tcp;
}

}  // namespace

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Connections::Connections(PeerParts& parts, Teller& teller, Preparation& preparation, asio::io_context& io,
                         ConnectionEvents events)
    : parts_(parts),
      teller_(teller),
      preparation_(preparation),
      io_(io),
      events_(std::move(events)),
      transport_(io.get_executor(), with_key(parts.options)),
      join_addresses_(parts.options.join) {}

void Connections::make_links() {
  const PeerOptions& options = parts_.options;
  transport_.shape_links(
      {options.experiment.latency.value_or(Duration{0}), options.experiment.bandwidth.value_or(0), 0});
  parts_.self.swarm = options.swarm;
  parts_.self.id = PeerId{entropy()};

  transport::LinkTableEvents events;
  events.on_message = [this](PeerId from, const Address& at, wire::Message message) {
    events_.drive(gossip::Received{from, at, std::move(message)});
  };
  events.on_unreachable = [this](const Address& address, transport::LinkErrorKind kind, std::string why) {
    const bool hopeless = join_addresses_.is_hopeless(address, kind);
    if (hopeless && join_addresses_.is_silent(address)) why += "; it does not seem to be a Starling peer";
    const bool locked_out =
        kind == transport::LinkErrorKind::wrong_key || kind == transport::LinkErrorKind::no_key;
    if (locked_out) events_.locked_out();
    events_.drive(gossip::Unreachable{address, hopeless, std::move(why), locked_out});
  };
  events.on_bulk = [this](transport::LinkPtr link, wire::Hello remote) {
    parts_.exchanger->serve(std::move(link), std::move(remote));
  };
  events.on_refused = [](transport::LinkErrorKind, const std::string& why) {
    spdlog::warn("refused a connection: {}", why);
  };
  transport::LinkTableOptions limits;
  limits.handshake_limit = kHandshakeLimit;
  parts_.links = std::make_unique<transport::LinkTable>(io_.get_executor(), transport_, parts_.self,
                                                        std::move(events), limits);
}

std::optional<PeerOutcome> Connections::listen() {
  make_links();
  const PeerOptions& options = parts_.options;
  const bool anywhere = options.listen.host == "0.0.0.0" || options.listen.host == "::";
  if (anywhere && !options.advertise) {
    return PeerOutcome{2, "--listen " + to_string(options.listen) +
                              " names no address that others could dial; add --advertise HOST:PORT"};
  }
  if (!options.tls && !is_loopback(options.listen.host)) {
    spdlog::warn(
        "--listen {} without --key: anyone who can reach it can join, and read and change the parameters; "
        "`starling key new FILE` makes a key",
        to_string(options.listen));
  }
  const auto listening = parts_.links->listen(options.listen);
  if (!listening) return PeerOutcome{2, listening.error().message};
  wire::Hello& self = parts_.self;
  self.address = options.advertise.value_or(*listening);
  if (self.address.port == 0) self.address.port = listening->port;
  const std::string name = options.name.empty() && parts_.resumed ? parts_.resumed->name : options.name;
  self.name = name.empty() ? host_name() + "-" + std::to_string(self.address.port) : name;
  parts_.links->set_hello(self);
  spdlog::set_default_logger(spdlog::default_logger()->clone(self.name));  // the peer's name in JSON logs
  return std::nullopt;
}

void Connections::make_exchanger() {
  ExchangerEvents events;
  events.on_ended = [this](std::uint64_t exchange, gossip::Outcome how, std::uint64_t round) {
    teller_.end_exchange(exchange);
    events_.drive(gossip::ExchangeEnded{exchange, how, round});
  };
  events.on_advanced = [this](std::uint64_t exchange, std::uint64_t cells) {
    teller_.advance_exchange(exchange);
    events_.drive(gossip::ExchangeAdvanced{exchange, cells});
  };
  events.on_offered = [this](PeerId from, std::uint64_t exchange, std::uint64_t round) {
    events_.drive(gossip::ExchangeOffered{from, exchange, round});
  };
  events.on_answer_ended = [this](PeerId from, std::uint64_t exchange, bool completed, bool poisoned) {
    teller_.end_answer(from, exchange);
    const gossip::Outcome unfinished = poisoned ? gossip::Outcome::poisoned : gossip::Outcome::aborted;
    events_.drive(gossip::AnswerEnded{from, exchange, completed ? gossip::Outcome::completed : unfinished});
  };
  events.on_state_advanced = [this](std::uint64_t chunks, std::uint64_t total) {
    events_.drive(gossip::StateAdvanced{chunks, total});
  };
  events.on_state_arrived = [this] {
    preparation_.take_copied_parameters();
    events_.drive(gossip::StateArrived{});
  };
  events.on_state_lost = [this](std::string why, bool poisoned) {
    events_.drive(gossip::StateLost{std::move(why), poisoned});
  };
  events.on_diverged = [this] { events_.drive(gossip::ReplicaDiverged{}); };
  events.steps = [this] { return parts_.trainer ? parts_.trainer->steps() : 0; };
  ExchangerOptions limits;
  if (const auto cells = training::chunk_cells(parts_.options.experiment)) limits.chunk_cells = *cells;
  if (parts_.options.experiment.window > 0) limits.window = parts_.options.experiment.window;
  parts_.exchanger =
      std::make_unique<Exchanger>(io_.get_executor(), *parts_.links, std::move(events), limits);
}

void Connections::shape(const training::LinkOrder& order) {
  transport_.shape_links_to(order.to, {order.latency, order.bandwidth, order.drop});
}

}  // namespace starling::node
