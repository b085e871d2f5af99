#include "transport/dial/connector.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "transport/coroutines.h"
#include "transport/links/routes.h"
#include "transport/tls/tls.h"

namespace starling::transport {
namespace {

// Connections that are being refused after their handshake; beyond that they are closed without a sentence.
constexpr std::size_t kRefusingMax = 32;

}  // namespace

Duration DialTime::share(std::size_t left) const {
  const Duration rest{until_ - std::chrono::steady_clock::now()};
  return std::max(Duration{0}, rest) / static_cast<int>(left);
}

std::vector<Address> addresses_of(const Endpoint& to) {
  std::vector<Address> all;
  if (to.address) all.push_back(to.address);
  std::ranges::copy_if(to.also, std::back_inserter(all), [](const Address& a) { return !a.host.empty(); });
  return all;
}

LinkError no_address(const Endpoint& to) {
  return {{"cannot reach " + to_string(to.id) + ": it has no address"}, LinkErrorKind::unreachable};
}

// A connection that close() ends, while this lives.
class Connector::Pending {
 public:
  Pending(Connector& owner, LinkPtr link) : owner_(owner), link_(std::move(link)) {
    owner_.pending_.insert(link_);
    if (owner_.closed_) link_->close();
  }
  ~Pending() { owner_.pending_.erase(link_); }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

 private:
  Connector& owner_;
  LinkPtr link_;
};

Connector::Connector(asio::any_io_executor executor, Transport& transport, Self self,
                     ConnectorOptions options, std::shared_ptr<LinkCounters> counters)
    : executor_(std::move(executor)),
      transport_(transport),
      self_(std::move(self)),
      options_(std::move(options)),
      counters_(std::move(counters)),
      admission_(options_.inbound) {
  STARLING_CHECK(self_.identity != nullptr);
  set_hello(std::move(self_.hello));
}

void Connector::set_hello(wire::Hello hello) {
  self_.hello = std::move(hello);
  self_.hello.key = self_.identity->key();
  self_.hello.id = self_.identity->id();
}

// ---- accepting ----

Result<Address> Connector::listen(const Address& at, Admitted then) {
  auto listener = transport_.listen(at, [weak = weak_from_this(), then = std::move(then)](LinkPtr link) {
    if (const auto self = weak.lock()) self->accept(std::move(link), then);
  });
  if (!listener.ok()) return listener.error();
  listener_ = std::move(*listener);
  return listener_->address();
}

void Connector::stop_listening() {
  if (listener_) listener_->close();
}

void Connector::accept(LinkPtr link, Admitted then) {
  if (closed_) return link->close();
  const auto closed = admission_.enter(link);
  if (closed) {
    report_refusal(LinkErrorKind::over_limit, *closed->link, closed->sentence);
    if (closed->link == link) return;
  }
  spawn(executor_, welcome(shared_from_this(), std::move(link), std::move(then)));
}

asio::awaitable<void> Connector::welcome(std::shared_ptr<Connector> self, LinkPtr link, Admitted then) {
  LinkResult<wire::Hello> remote = LinkError{};
  {
    const Pending pending(*self, link);
    Self mine = self->self_;
    remote = co_await admit(*link, std::move(mine), self->options_.handshake_limit);
  }
  const bool had_place = self->admission_.leave(link);
  if (self->closed_ || !had_place) {
    link->close();
    co_return;
  }
  if (!remote.ok()) {
    const LinkError& error = remote.error();
    if (error.kind == LinkErrorKind::timed_out) ++self->counters_->handshake_timeouts;
    self->report_refusal(error.kind, *link, error.message);
    co_return;
  }
  self->admission_.remember(link->remote());
  then(std::move(link), std::move(*remote));
}

void Connector::report_refusal(LinkErrorKind kind, const Link& link, const std::string& sentence) {
  counters_->note(kind);
  if (options_.on_refused) options_.on_refused(kind, source_of(link.remote().host), sentence);
}

void Connector::reject(LinkPtr link, wire::RefusalReason reason, LinkErrorKind kind, std::string sentence) {
  if (closed_) return link->close();
  report_refusal(kind, *link, to_string(link->remote()) + " refused: " + sentence);
  dismiss(std::move(link), {reason, std::move(sentence)});
}

void Connector::dismiss(LinkPtr link, wire::Refusal refusal) {
  if (closed_ || refusing_ >= kRefusingMax) return link->close();
  ++refusing_;
  spawn(executor_, send_refusal(shared_from_this(), std::move(link), std::move(refusal)));
}

asio::awaitable<void> Connector::send_refusal(std::shared_ptr<Connector> self, LinkPtr link,
                                              wire::Refusal refusal) {
  const Pending pending(*self, link);
  link->expires_after(self->options_.handshake_limit);
  co_await refuse_remote(*link, refusal.reason, std::move(refusal.text));
  --self->refusing_;
}

// ---- dialing ----

asio::awaitable<LinkResult<wire::Hello>> Connector::greet(std::shared_ptr<Connector> self, LinkPtr link,
                                                          wire::Purpose purpose, std::uint64_t call) {
  const Pending pending(*self, link);
  Self mine = self->self_;
  mine.hello.purpose = purpose;
  mine.hello.call = call;
  auto remote = co_await introduce(*link, std::move(mine), self->options_.handshake_limit);
  if (!remote.ok()) self->counters_->note(remote.error().kind);
  co_return remote;
}

asio::awaitable<LinkResult<BulkLink>> Connector::connect(std::shared_ptr<Connector> self, Address to,
                                                         wire::Purpose purpose, std::uint64_t call,
                                                         Duration at_most) {
  auto dialed = co_await self->transport_.dial(to, at_most);
  if (!dialed.ok()) {
    self->counters_->note(dialed.error().kind);
    co_return dialed.error();
  }
  LinkPtr link = *dialed;
  link->travel_as(self->transport_.shapes().to(to));
  auto remote = co_await greet(self, link, purpose, call);
  if (!remote.ok()) co_return remote.error();
  self->admission_.remember(link->remote());
  co_return BulkLink{std::move(link), std::move(*remote)};
}

asio::awaitable<LinkResult<BulkLink>> Connector::connect_to(std::shared_ptr<Connector> self, Endpoint to,
                                                            wire::Purpose purpose, std::uint64_t call) {
  const std::vector<Address> at = addresses_of(to);
  if (at.empty()) {
    self->counters_->note(LinkErrorKind::unreachable);
    co_return no_address(to);
  }
  const DialTime time(self->options_.dial_limit);
  LinkError error;
  for (std::size_t k = 0; k < at.size(); ++k) {
    const Duration share = time.share(at.size() - k);
    auto dialed = co_await connect(self, at[k], purpose, call, share);
    if (dialed.ok() && (!to.id || dialed->remote.id == to.id)) co_return dialed;
    if (dialed.ok()) {
      dialed->link->close();
      error = other_peer(to.id, at[k], dialed->remote);
      self->counters_->note(error.kind);
    } else {
      error = dialed.error();
    }
  }
  co_return error;
}

// ---- circuits ----

asio::awaitable<LinkStatus> Connector::request_circuit(std::shared_ptr<Connector> self, LinkPtr link,
                                                       PeerId target) {
  const Pending pending(*self, link);
  // The relay waits for the target, and answers after that.
  link->expires_after(self->answer_limit() + self->options_.handshake_limit);
  wire::Message request = wire::CircuitRequest{target};
  LinkStatus asked = co_await write_message(*link, std::move(request));
  if (!asked.ok()) co_return asked;
  auto answer = co_await read_message(*link);
  if (!answer.ok()) co_return answer.error();
  const auto* circuit = std::get_if<wire::Circuit>(&*answer);
  if (circuit != nullptr && circuit->target == target) co_return Done{};
  link->close();
  if (const auto* refusal = std::get_if<wire::Refusal>(&*answer))
    co_return LinkError{{"refused: " + refusal->text}, LinkErrorKind::refused};
  co_return LinkError{{"did not answer the request for a circuit"}, LinkErrorKind::malformed};
}

asio::awaitable<LinkResult<BulkLink>> Connector::connect_through(std::shared_ptr<Connector> self,
                                                                 Endpoint to) {
  const Endpoint relay = helper_of(to);
  auto outer = co_await connect_to(self, relay, wire::Purpose::relay, 0);
  if (!outer.ok()) co_return outer.error();
  const auto explained = [&](const LinkError& error) {
    self->counters_->note(error.kind);
    return LinkError{{"the relay " + to_string(outer->remote.id) + " at " + to_string(to.address) + " for " +
                      to_string(to.id) + ": " + error.message},
                     error.kind};
  };
  const LinkStatus agreed = co_await request_circuit(self, outer->link, to.id);
  if (!agreed.ok()) co_return explained(agreed.error());
  auto inner = self->transport_.link_over(outer->link, TlsRole::dialer);
  if (!inner.ok()) {
    outer->link->close();
    co_return explained(inner.error());
  }
  auto remote = co_await greet(self, *inner, wire::Purpose::bulk, 0);
  if (!remote.ok()) co_return remote.error();
  if (remote->id != to.id) {
    (*inner)->close();
    co_return explained(other_peer(to.id, to.address, *remote));
  }
  co_return BulkLink{*inner, std::move(*remote)};
}

void Connector::close() {
  if (std::exchange(closed_, true)) return;
  stop_listening();
  for (const LinkPtr& link : pending_) link->close();
}

}  // namespace starling::transport
