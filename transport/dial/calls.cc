#include "transport/dial/calls.h"

#include <sys/random.h>

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "transport/coroutines.h"
#include "transport/tls/tls.h"

namespace starling::transport {
namespace {

constexpr std::size_t kTriedBytesMax = 4096;  // read from a peer that was tried, until it closes

// Closes a connection that has served its purpose, when what was written has left.
asio::awaitable<void> part(LinkPtr link, Duration at_most) {
  link->expires_after(at_most);
  link->finish();
  co_await link->drain(kTriedBytesMax);
  link->close();
}

}  // namespace

std::uint64_t call_number() {
  std::uint64_t number = 0;
  while (number == 0)
    STARLING_CHECK(::getrandom(&number, sizeof number, 0) == static_cast<ssize_t>(sizeof number));
  return number;
}

LinkError unanswered(const Endpoint& to) {
  return {{to_string(to.id) + " did not answer the call through its home " + to_string(to.via) + " at " +
           to_string(to.address)},
          LinkErrorKind::unreachable};
}

// A call that waits for its answer.
struct Calls::Waiting {
  Waiting(const asio::any_io_executor& executor, PeerId id) : target(id), changed(executor) {}

  PeerId target;
  std::optional<BulkLink> answer;
  bool closed = false;
  Signal changed;
};

Calls::Calls(std::shared_ptr<Connector> connector,
             std::function<void(const Endpoint&, const wire::Message&)> send, Connector::Admitted on_bulk)
    : connector_(std::move(connector)), send_(std::move(send)), on_bulk_(std::move(on_bulk)) {}

asio::awaitable<LinkResult<BulkLink>> Calls::dial(std::shared_ptr<Calls> self, Endpoint to) {
  Connector& connector = *self->connector_;
  const auto fail = [&](LinkError error) {
    connector.counters().note(error.kind);
    return error;
  };
  if (self->waiting_.size() >= kWaitingMax) {
    co_return fail({{std::to_string(kWaitingMax) + " calls wait for an answer, and no more are allowed"},
                    LinkErrorKind::busy});
  }
  const std::uint64_t number = call_number();
  const auto waiting = std::make_shared<Waiting>(connector.executor(), to.id);
  self->waiting_.emplace(number, waiting);
  ++connector.counters().calls_sent;
  self->send_(helper_of(to), wire::Call{to.id, connector.id(), wire::Purpose::bulk, number});
  const auto deadline = std::chrono::steady_clock::now() + connector.answer_limit();
  while (!waiting->answer && !waiting->closed && std::chrono::steady_clock::now() < deadline)
    co_await waiting->changed.wait_until(deadline);
  self->waiting_.erase(number);
  if (waiting->answer) co_return std::move(*waiting->answer);
  ++connector.counters().calls_unanswered;
  co_return fail(unanswered(to));
}

void Calls::take_answer(LinkPtr link, wire::Hello remote) {
  const auto found = waiting_.find(remote.call);
  if (found == waiting_.end() || found->second->target != remote.id || found->second->answer) {
    ++connector_->counters().answers_refused;
    return connector_->reject(std::move(link), wire::RefusalReason::malformed, LinkErrorKind::refused,
                              "no call with this number waits for " + to_string(remote.id));
  }
  found->second->answer = BulkLink{std::move(link), std::move(remote)};
  found->second->changed.raise();
}

void Calls::answer(const Endpoint& to, wire::Purpose purpose, std::uint64_t number) {
  if (connector_->is_closed()) return;
  if (answers_ >= kAnswersMax || purpose == wire::Purpose::control || number == 0) {
    ++connector_->counters().answers_failed;
    return;
  }
  ++answers_;
  spawn(connector_->executor(), purpose == wire::Purpose::bulk
                                    ? answer_bulk(shared_from_this(), to, number)
                                    : answer_relay(shared_from_this(), to, number));
}

void Calls::end_answer(bool connected) {
  --answers_;
  LinkCounters& counters = connector_->counters();
  ++(connected ? counters.calls_answered : counters.answers_failed);
}

asio::awaitable<void> Calls::answer_bulk(std::shared_ptr<Calls> self, Endpoint to, std::uint64_t number) {
  auto dialed = co_await Connector::connect_to(self->connector_, to, wire::Purpose::bulk, number);
  self->end_answer(dialed.ok());
  if (dialed.ok()) self->on_bulk_(std::move(dialed->link), std::move(dialed->remote));
}

asio::awaitable<void> Calls::answer_relay(std::shared_ptr<Calls> self, Endpoint to, std::uint64_t number) {
  auto outer = co_await Connector::connect_to(self->connector_, to, wire::Purpose::relay, number);
  self->end_answer(outer.ok());
  if (!outer.ok()) co_return;
  Connector& connector = *self->connector_;
  auto inner = connector.transport().link_over(outer->link, TlsRole::accepter);
  if (!inner.ok()) {
    connector.counters().note(inner.error().kind);
    outer->link->close();
    co_return;
  }
  connector.accept(*inner, [self](LinkPtr link, wire::Hello remote) {
    if (remote.purpose != wire::Purpose::bulk || remote.call != 0) {
      return self->connector_->reject(std::move(link), wire::RefusalReason::malformed,
                                      LinkErrorKind::malformed, "a circuit is for a bulk connection");
    }
    self->on_bulk_(std::move(link), std::move(remote));
  });
}

asio::awaitable<LinkStatus> Calls::try_dial(std::shared_ptr<Calls> self, Endpoint to) {
  if (self->tries_ >= kTriesMax) {
    co_return LinkError{{std::to_string(kTriesMax) + " peers are tried already"}, LinkErrorKind::busy};
  }
  ++self->tries_;
  to.also.clear();
  auto dialed = co_await Connector::connect_to(self->connector_, to, wire::Purpose::relay, 0);
  --self->tries_;
  if (!dialed.ok()) co_return dialed.error();
  spawn(self->connector_->executor(),
        part(std::move(dialed->link), self->connector_->options().handshake_limit));
  co_return Done{};
}

void Calls::close() {
  for (const auto& [number, waiting] : waiting_) {
    if (waiting->answer) waiting->answer->link->close();
    waiting->closed = true;
    waiting->changed.raise();
  }
}

}  // namespace starling::transport
