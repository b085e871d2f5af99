#include "node/peer/connections.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "node/front/http_rules.h"
#include "training/experiment/control.h"
#include "training/replica/recipe.h"

namespace starling::node {
namespace {

constexpr Duration kHandshakeLimit = std::chrono::seconds(3);
constexpr int kSilentDialsMax = 3;

// The host's name, if it may be part of a peer's.
std::string host_name() {
  char name[256] = {};
  const bool known = ::gethostname(name, sizeof name - 1) == 0;
  return known && is_plain_name(std::string(name) + "-65535") ? name : "peer";
}

}  // namespace

Connections::Connections(PeerParts& parts, Teller& teller, Preparation& preparation)
    : parts_(parts),
      teller_(teller),
      preparation_(preparation),
      transport_(parts.io.get_executor(), {.tls = parts.options.tls}) {}

Status Connections::find_identity() {
  const PeerOptions& options = parts_.options;
  auto identity = options.state.empty() ? transport::Ed25519Identity::make_new(options.swarm)
                                        : transport::Ed25519Identity::read_or_create(
                                              options.state + "/identity", options.swarm);
  if (!identity) return identity.error();
  parts_.identity = std::move(*identity);
  parts_.self.id = parts_.identity->id();
  parts_.self.key = parts_.identity->key();
  return Done{};
}

void Connections::make_links() {
  const PeerOptions& options = parts_.options;
  transport_.shapes().set_all({options.experiment.network.latency.value_or(Duration{0}),
                               options.experiment.network.bandwidth.value_or(0), 0});
  parts_.self.swarm = options.swarm;

  transport::LinkTableEvents events;
  events.on_message = [this](PeerId from, const Address& at, wire::Message message) {
    parts_.drive(gossip::Received{from, at, std::move(message)});
  };
  events.on_unreachable = [this](const Endpoint& to, transport::LinkErrorKind kind, std::string why) {
    take_failure(to, kind, std::move(why));
  };
  events.on_bulk = [this](transport::LinkPtr link, wire::Hello remote) {
    parts_.exchanger->serve(std::move(link), std::move(remote));
  };
  events.on_refused = [this](transport::LinkErrorKind kind, const std::string& source,
                             const std::string& why) {
    const auto unlogged = refusals_.count(LogLimiter::Clock::now(), std::string(name(kind)), source);
    if (unlogged) spdlog::warn("refused a connection: {}", with_unlogged(why, *unlogged));
  };
  events.may_relay = [this](PeerId peer) {
    return parts_.core && parts_.core->view().membership.find(peer) != nullptr;
  };
  transport::Self self{parts_.self, parts_.identity.get()};
  if (const auto& list = options.allow) self.allowed = [&list](PeerId peer) { return list->allows(peer); };
  parts_.links = std::make_unique<transport::LinkTable>(
      parts_.io.get_executor(), transport_, std::move(self), std::move(events),
      transport::LinkTableOptions{.handshake_limit = kHandshakeLimit,
                                  .relay = {.bits_per_second = static_cast<double>(options.reach.relay)}});
}

// A peer that rejoins a remembered swarm cannot tell which side has the wrong key; a restart reads its own
// key file again.
void Connections::take_failure(const Endpoint& to, transport::LinkErrorKind kind, std::string why) {
  using Kind = transport::LinkErrorKind;
  const bool hopeless = is_hopeless(to.address, kind);
  const bool asked = std::ranges::count(parts_.options.join, to.address) > 0;
  if (asked && kind == Kind::unreachable && why.ends_with("Connection refused"))
    why += ": no peer listens at that port now";
  if (hopeless && silent_dials_.contains(to.address)) why += "; it does not seem to be a Starling peer";
  const bool locked_out = kind == Kind::wrong_key || kind == Kind::no_key;
  if (locked_out && parts_.options.join.empty()) parts_.restart_may_help = true;
  parts_.drive(gossip::Unreachable{to.address, hopeless, std::move(why), locked_out, to.id});
}

// Counts a failed connection to an address that the peer was asked to join. True if no retry can succeed: no
// Starling peer listens there; one of another version, swarm or key does, one that does not prove its
// identity, or one that is not allowed or does not allow this peer; or, repeatedly, something that accepts
// the connection and stays silent. A remote that ends the connection before its first byte may be busy and is
// retried. Never true for other addresses, which may be out of date.
bool Connections::is_hopeless(const Address& address, transport::LinkErrorKind kind) {
  using Kind = transport::LinkErrorKind;
  if (std::ranges::count(parts_.options.join, address) == 0) return false;
  switch (kind) {
    case Kind::bad_magic:
    case Kind::bad_version:
    case Kind::wrong_swarm:
    case Kind::wrong_key:
    case Kind::no_key:
    case Kind::refused:
    case Kind::same_peer:
    case Kind::false_identity:
    case Kind::not_allowed:
      return true;
    case Kind::timed_out:
    case Kind::closed_by_peer:
    case Kind::broken:
      return ++silent_dials_[address] >= kSilentDialsMax;
    default:
      return false;
  }
}

Status Connections::listen() {
  if (Status found = find_identity(); !found) return found;
  make_links();
  const PeerOptions& options = parts_.options;
  if (options.reach.listen && !options.tls && !is_loopback(options.reach.listen.host)) {
    spdlog::warn(
        "--listen {} without --key: anyone who can reach it can join, and read and change the parameters; "
        "`starling key new FILE` makes a key",
        to_string(options.reach.listen));
  }
  wire::Hello& self = parts_.self;
  if (options.reach.listen) {
    const auto listening = parts_.links->listen(options.reach.listen);
    if (!listening) return listening.error();
    listening_ = *listening;
    self.address = options.reach.advertise.empty() ? listening_ : options.reach.advertise.front();
  }
  const std::string name = options.name.empty() && parts_.resumed ? parts_.resumed->name : options.name;
  // Without a port the id tells the peers of one machine apart.
  const std::string suffix =
      options.reach.listen ? std::to_string(self.address.port) : to_string(self.id).substr(0, 5);
  self.name = name.empty() ? host_name() + "-" + suffix : name;
  parts_.links->set_hello(self);
  key_watch_.begin();
  spdlog::set_default_logger(spdlog::default_logger()->clone(self.name));  // the peer's name in the log
  return Done{};
}

void Connections::make_exchanger() {
  ExchangerOptions limits;
  limits.chunk_cells = training::chunk_cells(parts_.options.experiment);
  if (parts_.options.experiment.gossip.window > 0) limits.window = parts_.options.experiment.gossip.window;
  parts_.exchanger = std::make_unique<Exchanger>(
      parts_.io.get_executor(), *parts_.links, [this](gossip::Event event) { take(std::move(event)); },
      limits, [this] { return parts_.trainer ? parts_.trainer->steps() : 0; });
}

void Connections::try_dial(const gossip::TryDial& asked) {
  const auto attempt = [](transport::LinkTable& links, std::function<void(gossip::Event)> drive,
                          gossip::TryDial it) -> asio::awaitable<void> {
    const transport::LinkStatus tried = co_await links.try_dial(it.to);
    gossip::Event done = gossip::DialTried{it.to.id, it.sequence, tried.ok()};
    drive(std::move(done));
  };
  transport::spawn(parts_.io.get_executor(), attempt(*parts_.links, parts_.drive, asked));
}

void Connections::obey(const std::string& link_order) {
  const auto order = training::parse_link_order(link_order);
  if (!order) return spdlog::warn("{}", order.error().message);
  transport_.shapes().set_to(order->to, {order->latency, order->bandwidth, order->drop});
}

// An event of the exchanger.
void Connections::take(gossip::Event event) {
  if (const auto* ended = std::get_if<gossip::ExchangeEnded>(&event)) {
    teller_.end_exchange(ended->exchange);
    if (parts_.trainer) parts_.trainer->mixed();
  } else if (const auto* advanced = std::get_if<gossip::ExchangeAdvanced>(&event)) {
    teller_.account_time().advanced(advanced->exchange);
  } else if (const auto* answered = std::get_if<gossip::AnswerEnded>(&event)) {
    teller_.account_time().answered(answered->from, answered->exchange);
    if (parts_.trainer) parts_.trainer->mixed();
  } else if (std::holds_alternative<gossip::StateArrived>(event)) {
    preparation_.take_copied_parameters();
  }
  parts_.drive(std::move(event));
}

}  // namespace starling::node
