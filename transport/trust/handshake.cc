#include "transport/trust/handshake.h"

#include <sys/random.h>

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace starling::transport {
namespace {

// More than the largest message of a handshake: an unknown remote cannot make this peer reserve more.
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
      return explained(" ended the connection during the handshake: " + error.message);
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

// Why a remote is refused.
struct Objection {
  LinkErrorKind kind;
  wire::RefusalReason reason;
  std::string told;      // to the remote
  std::string sentence;  // for this peer's user, with the address
};

Objection false_identity(const Link& link, const wire::Hello& theirs) {
  return {LinkErrorKind::false_identity, wire::RefusalReason::false_identity,
          "this connection does not prove that it comes from the peer " + to_string(theirs.id),
          to_string(link.remote()) + " refused: it claims to be " + to_string(theirs.id) +
              " but did not prove that it has that peer's key"};
}

// Checks what the remote's Hello says, but not its proof.
std::optional<Objection> objection_to(const Link& link, const Self& self, const wire::Hello& theirs) {
  const std::string remote = to_string(link.remote());
  const std::string& swarm = self.hello.swarm;
  if (theirs.swarm != swarm) {
    const std::string why =
        "refused: this peer belongs to swarm '" + swarm + "'; join it with --swarm " + swarm;
    return Objection{LinkErrorKind::wrong_swarm, wire::RefusalReason::wrong_swarm,
                     "swarm '" + theirs.swarm + "' " + why,
                     "swarm '" + theirs.swarm + "' of " + remote + " " + why};
  }
  if (self.identity->id_of(theirs.key) != theirs.id) return false_identity(link, theirs);
  if (theirs.id == self.identity->id()) {
    return Objection{LinkErrorKind::same_peer, wire::RefusalReason::same_peer, "that is this peer itself",
                     remote + " is this peer itself"};
  }
  if (self.allowed && !self.allowed(theirs.id)) {
    return Objection{LinkErrorKind::not_allowed, wire::RefusalReason::not_allowed,
                     "this peer's list of peers does not name " + to_string(theirs.id),
                     remote + " refused: the list of peers does not name " + to_string(theirs.id) +
                         (theirs.name.empty() ? "" : " (" + theirs.name + ")")};
  }
  return std::nullopt;
}

LinkErrorKind kind_of(const wire::Refusal& refusal) {
  if (refusal.text == kKeyIsMissing) return LinkErrorKind::wrong_key;
  if (refusal.reason == wire::RefusalReason::false_identity) return LinkErrorKind::false_identity;
  if (refusal.reason == wire::RefusalReason::not_allowed) return LinkErrorKind::not_allowed;
  return LinkErrorKind::refused;
}

LinkError explain(Link& link, const wire::Refusal& refusal) {
  return fail(link, kind_of(refusal), to_string(link.remote()) + " refused: " + refusal.text);
}

// This peer's Hello for one connection.
wire::Hello greeting(const Self& self) {
  wire::Hello mine = self.hello;
  mine.key = self.identity->key();
  mine.id = self.identity->id_of(mine.key);
  mine.proof = {};
  STARLING_CHECK(::getrandom(mine.nonce.bytes.data(), mine.nonce.bytes.size(), 0) ==
                 static_cast<ssize_t>(mine.nonce.bytes.size()));
  return mine;
}

// Appends values in little-endian order, and bytes of any length after their length.
class Statement {
 public:
  explicit Statement(Signer signer) { put(static_cast<std::uint8_t>(signer)); }

  template <class T>
  void put(T value) {
    bytes_.resize(bytes_.size() + sizeof value);
    store(bytes_.data() + bytes_.size() - sizeof value, value);
  }
  void put_bytes(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void put_counted(Bytes bytes) {
    put(static_cast<std::uint32_t>(bytes.size()));
    put_bytes(bytes);
  }
  void put_hello(const wire::Hello& hello) {
    put(hello.id.value);
    put_bytes(hello.key.bytes);
    put_bytes(hello.nonce.bytes);
    put(static_cast<std::uint8_t>(hello.purpose));
    put(hello.call);
    put(hello.address.port);
    for (const std::string* text : {&hello.address.host, &hello.name, &hello.swarm})
      put_counted(std::as_bytes(std::span(*text)));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Refuses the remote for this reason; returns this end's error.
asio::awaitable<LinkError> object(Link& link, Objection objection) {
  co_await refuse_remote(link, objection.reason, std::move(objection.told));
  co_return fail(link, objection.kind, std::move(objection.sentence));
}

// Reads the dialer's Hello. An error is reported to the dialer if it can be.
asio::awaitable<LinkResult<wire::Hello>> read_hello(Link& link) {
  auto first = co_await read_message(link);
  if (!first.ok()) {
    if (first.error().kind == LinkErrorKind::bad_version) {
      co_await refuse_remote(link, wire::RefusalReason::wrong_version, first.error().message);
    }
    if (first.error().kind == LinkErrorKind::wrong_key) {
      std::string reason = "this peer has no key";  // a dialer with a key only detects plain text
      co_await refuse_remote(link, wire::RefusalReason::wrong_swarm, std::move(reason));
    }
    co_return explain(link, first.error());
  }
  auto* hello = std::get_if<wire::Hello>(&*first);
  if (hello == nullptr) {
    co_return fail(link, LinkErrorKind::malformed, to_string(link.remote()) + " did not begin with a Hello");
  }
  co_return std::move(*hello);
}

}  // namespace

std::vector<std::byte> handshake_statement(Signer signer, const wire::Hello& dialer,
                                           const wire::Hello& accepter, Bytes channel_binding) {
  Statement statement(signer);
  statement.put_counted(channel_binding);
  statement.put_hello(dialer);
  statement.put_hello(accepter);
  return statement.take();
}

asio::awaitable<void> refuse_remote(Link& link, wire::RefusalReason reason, std::string sentence) {
  wire::Message refusal = wire::Refusal{reason, std::move(sentence)};
  const LinkStatus sent = co_await write_message(link, std::move(refusal));
  if (sent.ok()) {
    link.finish();
    co_await link.drain(kDroppedBytesMax);
  }
  link.close();
}

asio::awaitable<LinkResult<wire::Hello>> introduce(Link& link, Self self, Duration at_most) {
  const Limits limits(link, at_most);
  const wire::Hello mine = greeting(self);
  wire::Message first = mine;
  LinkStatus sent = co_await write_message(link, std::move(first));
  if (!sent.ok()) co_return explain_answer(link, sent.error());

  auto answer = co_await read_message(link);
  if (!answer.ok()) co_return explain_answer(link, answer.error());
  if (const auto* refusal = std::get_if<wire::Refusal>(&*answer)) co_return explain(link, *refusal);
  auto* theirs = std::get_if<wire::Hello>(&*answer);
  if (theirs == nullptr || theirs->purpose != mine.purpose) {
    co_return fail(link, LinkErrorKind::malformed, to_string(link.remote()) + " did not answer with a Hello");
  }
  const auto binding = link.channel_binding();
  auto objection = objection_to(link, self, *theirs);
  if (!objection &&
      !self.identity->verify(theirs->key, handshake_statement(Signer::accepter, mine, *theirs, binding),
                             theirs->proof)) {
    objection = false_identity(link, *theirs);
  }
  if (objection) {
    LinkError error = co_await object(link, std::move(*objection));
    co_return error;
  }
  wire::Message proof =
      wire::Proof{self.identity->sign(handshake_statement(Signer::dialer, mine, *theirs, binding))};
  sent = co_await write_message(link, std::move(proof));
  if (!sent.ok()) co_return explain(link, sent.error());
  co_return std::move(*theirs);
}

asio::awaitable<LinkResult<wire::Hello>> admit(Link& link, Self self, Duration at_most) {
  const Limits limits(link, at_most);
  auto theirs = co_await read_hello(link);
  if (!theirs.ok()) co_return theirs.error();
  if (auto objection = objection_to(link, self, *theirs)) {
    LinkError error = co_await object(link, std::move(*objection));
    co_return error;
  }
  wire::Hello mine = greeting(self);
  mine.purpose = theirs->purpose;
  const auto binding = link.channel_binding();
  mine.proof = self.identity->sign(handshake_statement(Signer::accepter, *theirs, mine, binding));
  wire::Message reply = mine;
  const LinkStatus sent = co_await write_message(link, std::move(reply));
  if (!sent.ok()) co_return explain(link, sent.error());

  auto last = co_await read_message(link);
  if (!last.ok()) co_return explain(link, last.error());
  if (const auto* refusal = std::get_if<wire::Refusal>(&*last)) co_return explain(link, *refusal);
  const auto* proof = std::get_if<wire::Proof>(&*last);
  if (proof == nullptr) {
    co_return fail(link, LinkErrorKind::malformed,
                   to_string(link.remote()) + " did not prove its identity after its Hello");
  }
  const auto statement = handshake_statement(Signer::dialer, *theirs, mine, binding);
  if (!self.identity->verify(theirs->key, statement, proof->signature)) {
    Objection objection = false_identity(link, *theirs);
    LinkError error = co_await object(link, std::move(objection));
    co_return error;
  }
  co_return std::move(*theirs);
}

}  // namespace starling::transport
