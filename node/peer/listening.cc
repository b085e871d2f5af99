#include "node/peer/listening.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "node/front/http_rules.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/control.h"

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

wire::Hello hello_of(const Identity& identity, const std::string& swarm) {
  wire::Hello hello;
  hello.id = identity.id();
  hello.key = identity.key();
  hello.swarm = swarm;
  return hello;
}

bool is_to_join(const Started& started, const Address& address) {
  return std::ranges::count(started.options.join, address) > 0;
}

}  // namespace

Result<std::unique_ptr<Listening>> Listening::open(Started& started) {
  const DaemonOptions& options = started.options;
  auto remembered = remember(options, started.events);
  if (!remembered) return remembered.error();
  auto identity = options.state.empty() ? transport::Ed25519Identity::make_new(options.swarm)
                                        : transport::Ed25519Identity::read_or_create(
                                              options.state + "/identity", options.swarm);
  if (!identity) return identity.error();
  std::unique_ptr<Listening> life(new Listening(started, std::move(*remembered), std::move(*identity)));
  if (Status done = life->listen(); !done) return done.error();
  if (Status done = life->open_board(); !done) return done.error();
  if (Status done = life->open_checkpoints(); !done) return done.error();
  if (Status done = life->open_trainers_socket(); !done) return done.error();
  return life;
}

// In a folder of the peer's name, so that several peers are several runs for TensorBoard.
Status Listening::open_board() {
  const std::string& folder = started_.options.tensorboard;
  if (folder.empty()) return Done{};
  const std::string own = folder + "/" + self_.name;
  if (!remembered_.resumed && remembered_.earlier.steps == 0 && training::TensorBoard::has_files(own))
    spdlog::warn(
        "--tensorboard: {} has figures of an earlier run, which TensorBoard draws as one with these; give "
        "each run a folder of its own",
        own);
  auto opened = Board::open(own);
  if (!opened) return Error{"--tensorboard: " + opened.error().message};
  board_ = std::move(*opened);
  return Done{};
}

Listening::Listening(Started& started, Remembered remembered, IdentityPtr identity)
    : started_(started),
      remembered_(std::move(remembered)),
      identity_(std::move(identity)),
      self_(hello_of(*identity_, started.options.swarm)),
      transport_(started.io.get_executor(), {.tls = started.options.tls}),
      links_(started.io.get_executor(), transport_, self_for_links(), link_events(),
             transport::LinkTableOptions{
                 .handshake_limit = kHandshakeLimit,
                 .relay = {.bits_per_second = static_cast<double>(started.options.reach.relay)}}),
      exchanger_(
          started.io.get_executor(), links_,
          [this](gossip::Event event) { events_.exchanged(std::move(event)); }, exchanger_options(),
          [this] { return events_.steps(); }),
      key_watch_(started) {
  const training::NetworkSettings& network = started.options.experiment.network;
  transport_.shapes().set_all({network.latency.value_or(Duration{0}), network.bandwidth.value_or(0), 0});
}

transport::Self Listening::self_for_links() const {
  transport::Self self{self_, identity_.get()};
  if (const auto& list = started_.options.allow)
    self.allowed = [&list](PeerId peer) { return list->allows(peer); };
  return self;
}

transport::LinkTableEvents Listening::link_events() {
  transport::LinkTableEvents events;
  events.on_message = [this](PeerId from, const Address& at, wire::Message message) {
    events_.core(gossip::Received{from, at, std::move(message)});
  };
  events.on_unreachable = [this](const Endpoint& to, transport::LinkErrorKind kind, std::string why) {
    take_failure(to, kind, std::move(why));
  };
  events.on_dialed = [this](const Address& at) {
    if (is_to_join(started_, at)) reached_.insert(at);
  };
  events.on_bulk = [this](transport::LinkPtr link, wire::Hello remote) {
    exchanger_.serve(std::move(link), std::move(remote));
  };
  events.on_refused = [this](transport::LinkErrorKind kind, const std::string& source,
                             const std::string& why) {
    const auto unlogged = refusals_.count(LogLimiter::Clock::now(), std::string(name(kind)), source);
    if (unlogged) spdlog::warn("refused a connection: {}", with_unlogged(why, *unlogged));
  };
  events.may_relay = [this](PeerId peer) { return events_.is_member(peer); };
  return events;
}

ExchangerOptions Listening::exchanger_options() const {
  const training::Experiment& experiment = started_.options.experiment;
  ExchangerOptions limits;
  limits.chunk_cells = training::chunk_cells(experiment);
  if (experiment.gossip.window > 0) limits.window = experiment.gossip.window;
  return limits;
}

// A peer that rejoins a remembered swarm cannot tell which side has the wrong key; a restart reads its own
// key file again.
void Listening::take_failure(const Endpoint& to, transport::LinkErrorKind kind, std::string why) {
  using Kind = transport::LinkErrorKind;
  const bool hopeless = is_hopeless(to.address, kind);
  if (is_to_join(started_, to.address) && kind == Kind::unreachable && why.ends_with("Connection refused"))
    why += ": no peer listens at that port now";
  if (hopeless && silent_dials_.contains(to.address)) why += "; it does not seem to be a Starling peer";
  const bool locked_out = kind == Kind::wrong_key || kind == Kind::no_key;
  if (locked_out && started_.options.join.empty()) started_.restart_may_help = true;
  const bool was_reached = reached_.contains(to.address);
  if (was_reached) started_.restart_may_help = true;  // it may come back
  events_.core(gossip::Unreachable{to.address, hopeless, std::move(why), locked_out, to.id, was_reached,
                                   kind == Kind::bad_version});
}

// Counts a failed connection to an address that the peer was asked to join. True if no retry can succeed: no
// Starling peer listens there; one of another version, swarm or key does, one that does not prove its
// identity, or one that is not allowed or does not allow this peer; or, repeatedly, something that accepts
// the connection and stays silent. A remote that ends the connection before its first byte may be busy and is
// retried. Never true for other addresses, which may be out of date.
bool Listening::is_hopeless(const Address& address, transport::LinkErrorKind kind) {
  using Kind = transport::LinkErrorKind;
  if (!is_to_join(started_, address)) return false;
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

Status Listening::listen() {
  const DaemonOptions& options = started_.options;
  if (options.reach.listen && !options.tls && !is_loopback(options.reach.listen.host)) {
    spdlog::warn(
        "--listen {} without --key: anyone who can reach it can join, and read and change the parameters; "
        "`starling key new FILE` makes a key",
        to_string(options.reach.listen));
  }
  if (options.reach.listen) {
    const auto listening = links_.listen(options.reach.listen);
    if (!listening) return listening.error();
    address_ = *listening;
    self_.address = options.reach.advertise.empty() ? address_ : options.reach.advertise.front();
  }
  const auto& resumed = remembered_.resumed;
  const std::string name = options.name.empty() && resumed ? resumed->name : options.name;
  // Without a port the id tells the peers of one machine apart.
  const std::string suffix =
      options.reach.listen ? std::to_string(self_.address.port) : to_string(self_.id).substr(0, 5);
  self_.name = name.empty() ? host_name() + "-" + suffix : name;
  links_.set_hello(self_);
  key_watch_.begin();
  spdlog::set_default_logger(spdlog::default_logger()->clone(self_.name));  // the peer's name in the log
  return Done{};
}

Status Listening::open_checkpoints() {
  std::erase_if(remembered_.members, [&](const CachedPeer& peer) { return peer.address == self_.address; });
  const CheckpointOptions& options = started_.options.checkpoints;
  if (options.folder.empty()) return Done{};
  const auto& resumed = remembered_.resumed;
  auto opened = Checkpointer::open(options, self_.name, resumed ? &*resumed : nullptr);
  if (!opened) return Error{"--checkpoints: " + opened.error().message};
  checkpoints_ = std::move(*opened);
  return Done{};
}

Status Listening::open_trainers_socket() {
  const std::string& socket = started_.options.trainer.socket;
  if (socket.empty()) return Done{};
  attachment_ = std::make_unique<Attachment>(started_.io.get_executor());
  if (Status done = attachment_->open(socket); !done) return Error{"--trainer: " + done.error().message};
  return Done{};
}

void Listening::try_dial(const gossip::TryDial& asked) {
  const auto attempt = [](transport::LinkTable& links, std::function<void(gossip::Event)> drive,
                          gossip::TryDial it) -> asio::awaitable<void> {
    const transport::LinkStatus tried = co_await links.try_dial(it.to);
    gossip::Event done = gossip::DialTried{it.to.id, it.sequence, tried.ok()};
    drive(std::move(done));
  };
  transport::spawn(started_.io.get_executor(), attempt(links_, events_.core, asked));
}

void Listening::obey(const std::string& link_order) {
  const auto order = training::parse_link_order(link_order);
  if (!order) return spdlog::warn("{}", order.error().message);
  transport_.shapes().set_to(order->to, {order->latency, order->bandwidth, order->drop});
}

}  // namespace starling::node
