#include "transport/handshake.h"

#include <string>
#include <utility>

namespace starling::transport {
namespace {

// More than the largest Hello: an unknown remote cannot make this peer reserve more.
constexpr std::size_t kHandshakeBytesMax = 4096;

// The most bytes that are read from a refused remote before the connection is closed.
constexpr std::size_t kDroppedBytesMax = std::size_t{1} << 16;

class Limits {
 public:
  Limits(Link& link, Duration at_most) : link_(link) {
    link_.limit_body(kHandshakeBytesMax);
    link_.expires_after(at_most);
  }
  ~Limits() {
    link_.limit_body(wire::kChunkBodyBytesMax);
    link_.expires_never();
  }
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;

 private:
  Link& link_;
};

LinkError fail(Link& link, LinkErrorKind kind, std::string sentence) {
  link.close();
  return {{std::move(sentence)}, kind};
}

// The error for a failed read or write in the handshake, with the address.
LinkError explain(Link& link, const LinkError& error) {
  const auto explained = [&](const std::string& what) {
    return fail(link, error.kind, to_string(link.remote()) + what);
  };
  switch (error.kind) {
    case LinkErrorKind::bad_magic:
    case LinkErrorKind::oversize:
    case LinkErrorKind::malformed:
    case LinkErrorKind::bad_checksum:
      return explained(" is not a Starling peer: " + error.message);
    case LinkErrorKind::bad_version:
      return explained(" refused: " + error.message);
    case LinkErrorKind::wrong_key:
    case LinkErrorKind::no_key:
      return explained(" " + error.message);
    case LinkErrorKind::timed_out:
      return explained(" did not introduce itself in time");
    case LinkErrorKind::closed_by_peer:
    case LinkErrorKind::broken:
      return explained(" ended the connection before introducing itself: " + error.message);
    default:
      return explained(": " + error.message);
  }
}

// The dialer's error. A remote that ends the connection before its first byte may only be busy.
LinkError explain_answer(Link& link, const LinkError& error) {
  const bool ended = error.kind == LinkErrorKind::closed_by_peer || error.kind == LinkErrorKind::broken;
  if (!ended || !link.is_silent()) return explain(link, error);
  return fail(link, LinkErrorKind::busy,
              to_string(link.remote()) +
                  " closed the connection without an answer: it has too many connections now, or it is not "
                  "a Starling peer");
}

std::string swarm_sentence(const Link& link, const wire::Hello& mine, const wire::Hello& theirs) {
  return "swarm '" + theirs.swarm + "' of " + to_string(link.remote()) +
         " refused: this peer belongs to swarm '" + mine.swarm + "'";
}

std::string self_sentence(const Link& link) { return to_string(link.remote()) + " is this peer itself"; }

// Sends the reason and ends this direction, so that the remote can read it and close.
asio::awaitable<void> refuse(Link& link, wire::RefusalReason reason, std::string sentence) {
  wire::Message refusal = wire::Refusal{reason, std::move(sentence)};
  const LinkStatus sent = co_await write_message(link, std::move(refusal));
  if (sent.ok()) {
    link.finish();
    co_await link.drain(kDroppedBytesMax);
  }
  link.close();
}

}  // namespace

asio::awaitable<LinkResult<wire::Hello>> introduce(Link& link, wire::Hello mine, Duration at_most) {
  const Limits limits(link, at_most);
  wire::Message greeting = mine;
  const LinkStatus sent = co_await write_message(link, std::move(greeting));
  if (!sent.ok()) co_return explain_answer(link, sent.error());

  auto answer = co_await read_message(link);
  if (!answer.ok()) co_return explain_answer(link, answer.error());
  if (const auto* refusal = std::get_if<wire::Refusal>(&*answer)) {
    const auto kind = refusal->text == kKeyIsMissing ? LinkErrorKind::wrong_key : LinkErrorKind::refused;
    co_return fail(link, kind, to_string(link.remote()) + " refused: " + refusal->text);
  }
  auto* hello = std::get_if<wire::Hello>(&*answer);
  if (hello == nullptr || hello->purpose != mine.purpose) {
    co_return fail(link, LinkErrorKind::malformed, to_string(link.remote()) + " did not answer with a Hello");
  }
  if (hello->swarm != mine.swarm) {
    co_return fail(link, LinkErrorKind::wrong_swarm, swarm_sentence(link, mine, *hello));
  }
  if (hello->id == mine.id) co_return fail(link, LinkErrorKind::same_peer, self_sentence(link));
  co_return std::move(*hello);
}

asio::awaitable<LinkResult<wire::Hello>> admit(Link& link, wire::Hello mine, Duration at_most) {
  const Limits limits(link, at_most);
  auto first = co_await read_message(link);
  if (!first.ok()) {
    if (first.error().kind == LinkErrorKind::bad_version) {
      co_await refuse(link, wire::RefusalReason::wrong_version, first.error().message);
    }
    if (first.error().kind == LinkErrorKind::wrong_key) {
      std::string reason = "this peer has no key";  // a dialer with a key only detects plain text
      co_await refuse(link, wire::RefusalReason::wrong_swarm, std::move(reason));
    }
    co_return explain(link, first.error());
  }
  auto* hello = std::get_if<wire::Hello>(&*first);
  if (hello == nullptr) {
    co_return fail(link, LinkErrorKind::malformed, to_string(link.remote()) + " did not begin with a Hello");
  }
  if (hello->swarm != mine.swarm) {
    std::string sentence = swarm_sentence(link, mine, *hello);
    std::string reason =
        "swarm '" + hello->swarm + "' refused: this peer belongs to swarm '" + mine.swarm + "'";
    co_await refuse(link, wire::RefusalReason::wrong_swarm, std::move(reason));
    co_return fail(link, LinkErrorKind::wrong_swarm, std::move(sentence));
  }
  if (hello->id == mine.id) {
    std::string reason = "that is this peer itself";
    co_await refuse(link, wire::RefusalReason::same_peer, std::move(reason));
    co_return fail(link, LinkErrorKind::same_peer, self_sentence(link));
  }
  wire::Hello answer = mine;
  answer.purpose = hello->purpose;
  wire::Message reply = std::move(answer);
  const LinkStatus sent = co_await write_message(link, std::move(reply));
  if (!sent.ok()) co_return explain(link, sent.error());
  co_return std::move(*hello);
}

}  // namespace starling::transport
