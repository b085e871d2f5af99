// Who a remote is: ids without their keys, replayed and relayed proofs, and peers that are not allowed.
#include <string>
#include <utility>

#include "tests/contains.h"
#include "tests/transport/table_peer.h"
#include "transport/trust/handshake.h"
#include "transport/trust/identity.h"

namespace starling::transport {
namespace {

using namespace testing;

const Identity& ed25519(std::uint64_t number) {
  static std::map<std::uint64_t, std::shared_ptr<const Ed25519Identity>> all;
  auto& identity = all[number];
  if (!identity) identity = *Ed25519Identity::make_new("test");
  return *identity;
}

Self real(std::uint64_t number) {
  Self self = testing::self(number, {"127.0.0.1", static_cast<std::uint16_t>(7000 + number)});
  self.identity = &ed25519(number);
  return self;
}

// Claims the key of another peer, without having it.
class Thief final : public Identity {
 public:
  Thief(const Identity& own, const Identity& victim) : own_(own), victim_(victim) {}
  const PublicKey& key() const override { return victim_.key(); }
  Signature sign(Bytes statement) const override { return own_.sign(statement); }
  bool verify(const PublicKey& key, Bytes statement, const Signature& signature) const override {
    return own_.verify(key, statement, signature);
  }
  PeerId id_of(const PublicKey& key) const override { return own_.id_of(key); }

 private:
  const Identity& own_;
  const Identity& victim_;
};

// States another peer's id with its own key.
class Impostor final : public Identity {
 public:
  Impostor(const Identity& own, PeerId stated) : own_(own), stated_(stated) {}
  const PublicKey& key() const override { return own_.key(); }
  Signature sign(Bytes statement) const override { return own_.sign(statement); }
  bool verify(const PublicKey& key, Bytes statement, const Signature& signature) const override {
    return own_.verify(key, statement, signature);
  }
  PeerId id_of(const PublicKey& key) const override { return key == own_.key() ? stated_ : own_.id_of(key); }

 private:
  const Identity& own_;
  PeerId stated_;
};

Self posing_as(const Identity& identity) {
  Self self = testing::self(5, {"127.0.0.1", 7005});
  self.identity = &identity;
  return self;
}

using Shaken = LinkResult<wire::Hello>;

std::pair<Shaken, Shaken> connect(World& world, Ends& ends, const Self& dialer, const Self& accepter) {
  const auto near = world.begin(introduce(*ends.near, dialer, kLong));
  const auto far = world.begin(admit(*ends.far, accepter, kLong));
  REQUIRE(world.until([&] { return near->has_value() && far->has_value(); }));
  return {**near, **far};
}

LinkErrorKind kind_in(const Shaken& result) {
  REQUIRE_FALSE(result.ok());
  INFO(result.error().message);
  return result.error().kind;
}

template <class T>
T expect(World& world, const LinkPtr& link) {
  auto message = world.run(read_message(*link));
  REQUIRE(message.ok());
  REQUIRE(std::holds_alternative<T>(*message));
  return std::get<T>(*message);
}

LinkStatus say(World& world, const LinkPtr& link, const wire::Message& message) {
  return world.run(write_message(*link, message));
}

}  // namespace

TEST_CASE("peers with keys learn each other's id") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const auto [near, far] = connect(world, ends, real(1), real(2));
  REQUIRE(near.ok());
  REQUIRE(far.ok());
  CHECK(near->id == ed25519(2).id());
  CHECK(far->id == ed25519(1).id());
  CHECK(far->key == ed25519(1).key());
  // What the dialer writes after its Proof is not a part of the handshake.
  REQUIRE(say(world, ends.near, ping(3)).ok());
  CHECK(world.run(read_message(*ends.far)).value() == ping(3));
}

TEST_CASE("each connection has its own nonces") {
  World world(Kind::memory);
  Ends first(world), second(world);
  const auto one = connect(world, first, real(1), real(2)), other = connect(world, second, real(1), real(2));
  CHECK(one.first->nonce != other.first->nonce);
  CHECK(one.second->nonce != other.second->nonce);
  CHECK(one.first->nonce != one.second->nonce);
}

TEST_CASE("a dialer with another peer's key but not its private key is refused") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const Thief thief(ed25519(1), ed25519(3));
  const auto far = world.begin(admit(*ends.far, real(2), kLong));
  // It does not wait for the accepter's opinion.
  REQUIRE(world.run(introduce(*ends.near, posing_as(thief), kLong)).ok());
  CHECK(expect<wire::Refusal>(world, ends.near).reason == wire::RefusalReason::false_identity);
  ends.near->close();
  REQUIRE(world.until([&] { return far->has_value(); }));
  CHECK(kind_in(**far) == LinkErrorKind::false_identity);
  CHECK(contains((*far)->error().message,
                 to_string(ends.far->remote()) + " refused: it claims to be " + to_string(ed25519(3).id())));
}

TEST_CASE("an accepter with another peer's key but not its private key is refused") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const Thief thief(ed25519(1), ed25519(3));
  const auto [near, far] = connect(world, ends, real(2), posing_as(thief));
  CHECK(kind_in(near) == LinkErrorKind::false_identity);
  CHECK(kind_in(far) == LinkErrorKind::false_identity);
  CHECK_FALSE(ends.near->is_open());
}

TEST_CASE("an id that is not the hash of its key is refused on either side") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  const Impostor impostor(ed25519(1), ed25519(3).id());
  {
    Ends ends(world);
    const auto [near, far] = connect(world, ends, posing_as(impostor), real(2));
    CHECK(kind_in(near) == LinkErrorKind::false_identity);
    CHECK(kind_in(far) == LinkErrorKind::false_identity);
  }
  Ends ends(world);
  const auto [near, far] = connect(world, ends, real(2), posing_as(impostor));
  CHECK(kind_in(near) == LinkErrorKind::false_identity);
  CHECK(kind_in(far) == LinkErrorKind::false_identity);
}

TEST_CASE("a recorded proof does not serve on another connection") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  // The record of a true handshake, as an accepter that it was meant for could make it.
  Ends first(world);
  const auto near = world.begin(introduce(*first.near, real(1), kLong));
  const auto recorded = expect<wire::Hello>(world, first.far);
  wire::Hello answer = dialer_hello(real(2));
  answer.purpose = recorded.purpose;
  const auto statement =
      handshake_statement(Signer::accepter, recorded, answer, first.far->channel_binding());
  answer.proof = ed25519(2).sign(statement);
  REQUIRE(say(world, first.far, answer).ok());
  const auto proof = expect<wire::Proof>(world, first.far);
  REQUIRE(world.until([&] { return near->has_value(); }));
  REQUIRE((*near)->ok());

  // The accepter's new nonce, and with TLS the new connection, make the proof false.
  Ends second(world);
  const auto far = world.begin(admit(*second.far, real(2), kLong));
  REQUIRE(say(world, second.near, recorded).ok());
  static_cast<void>(expect<wire::Hello>(world, second.near));
  REQUIRE(say(world, second.near, proof).ok());
  CHECK(expect<wire::Refusal>(world, second.near).reason == wire::RefusalReason::false_identity);
  second.near->close();
  REQUIRE(world.until([&] { return far->has_value(); }));
  CHECK(kind_in(**far) == LinkErrorKind::false_identity);
}

TEST_CASE("a recorded answer of an accepter does not serve on another connection") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends first(world);
  const auto far = world.begin(admit(*first.far, real(2), kLong));
  REQUIRE(say(world, first.near, dialer_hello(real(1))).ok());
  const auto recorded = expect<wire::Hello>(world, first.near);
  first.near->close();
  Ends second(world);
  const auto near = world.begin(introduce(*second.near, real(1), kLong));
  static_cast<void>(expect<wire::Hello>(world, second.far));
  REQUIRE(say(world, second.far, recorded).ok());
  CHECK(expect<wire::Refusal>(world, second.far).reason == wire::RefusalReason::false_identity);
  second.far->close();
  REQUIRE(world.until([&] { return near->has_value(); }));
  CHECK(kind_in(**near) == LinkErrorKind::false_identity);
}

TEST_CASE("a proof cannot be relayed into another encrypted connection") {
  World world(GENERATE(Kind::tls, Kind::memory));
  // A member in the middle passes all messages between the two outer ends.
  Ends outer(world), inner(world);
  const auto near = world.begin(introduce(*outer.near, real(1), kLong));
  const auto far = world.begin(admit(*inner.far, real(2), kLong));
  REQUIRE(say(world, inner.near, expect<wire::Hello>(world, outer.far)).ok());
  REQUIRE(say(world, outer.far, expect<wire::Hello>(world, inner.near)).ok());
  if (world.kind == Kind::tls) {
    CHECK(expect<wire::Refusal>(world, outer.far).reason == wire::RefusalReason::false_identity);
    outer.far->close();
    inner.near->close();
    REQUIRE(world.until([&] { return near->has_value() && far->has_value(); }));
    CHECK(kind_in(**near) == LinkErrorKind::false_identity);
    CHECK_FALSE((*far)->ok());
  } else {  // without encryption nothing distinguishes the connections
    REQUIRE(say(world, inner.near, expect<wire::Proof>(world, outer.far)).ok());
    REQUIRE(world.until([&] { return near->has_value() && far->has_value(); }));
    CHECK((*far)->ok());
  }
}

TEST_CASE("the two ends of an encrypted connection have one channel binding, and others have another one") {
  World world(Kind::tls);
  Ends first(world), second(world);
  connect(world, first, real(1), real(2));
  connect(world, second, real(1), real(2));
  CHECK(first.near->channel_binding().size() == 32);
  CHECK(first.near->channel_binding() == first.far->channel_binding());
  CHECK(first.near->channel_binding() != second.near->channel_binding());
}

TEST_CASE("every field of both greetings is signed") {
  wire::Hello dialer = dialer_hello(real(1)), accepter = dialer_hello(real(2));
  const std::vector<std::byte> binding(32, std::byte{1});
  const auto signed_bytes = [&] { return handshake_statement(Signer::dialer, dialer, accepter, binding); };
  const auto whole = signed_bytes();
  CHECK(handshake_statement(Signer::accepter, dialer, accepter, binding) != whole);
  CHECK(handshake_statement(Signer::dialer, accepter, dialer, binding) != whole);
  CHECK(handshake_statement(Signer::dialer, dialer, accepter, {}) != whole);
  for (wire::Hello* hello : {&dialer, &accepter}) {
    const wire::Hello kept = *hello;
    const auto changes = [&](auto change) {
      change(*hello);
      const bool differs = signed_bytes() != whole;
      *hello = kept;
      return differs;
    };
    CHECK(changes([](wire::Hello& h) { h.id.value ^= 1; }));
    CHECK(changes([](wire::Hello& h) { h.key.bytes[31] ^= std::byte{1}; }));
    CHECK(changes([](wire::Hello& h) { h.nonce.bytes[15] ^= std::byte{1}; }));
    CHECK(changes([](wire::Hello& h) { h.purpose = wire::Purpose::bulk; }));
    CHECK(changes([](wire::Hello& h) { h.address.port ^= 1; }));
    CHECK(changes([](wire::Hello& h) { h.address.host += "x"; }));
    CHECK(changes([](wire::Hello& h) { h.name += "x"; }));
    CHECK(changes([](wire::Hello& h) { h.swarm += "x"; }));
    CHECK(changes([](wire::Hello& h) { std::swap(h.name, h.swarm); }));
    CHECK_FALSE(changes([](wire::Hello& h) { h.proof.bytes[0] ^= std::byte{1}; }));
  }
}

TEST_CASE("a dialer that sends no proof is not admitted") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  LinkTableOptions options;
  options.handshake_limit = std::chrono::milliseconds(200);
  TablePeer peer(world, 1, options);
  const auto stranger = world.make_transport();
  const LinkPtr silent = raw_dial(world, *stranger, peer.address);
  static_cast<void>(say(world, silent, dialer_hello(self(2, {"127.0.0.1", 7002}))));
  REQUIRE(world.until([&] { return !peer.refused.empty(); }));
  CHECK(peer.refused == std::vector{LinkErrorKind::timed_out});
  CHECK(peer.table->links() == 0);
  CHECK(peer.table->handshakes() == 0);
  CHECK(peer.table->counters().handshake_timeouts == 1);
}

TEST_CASE("a dialer that sends something else than a proof is not admitted") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  LinkTableOptions options;
  options.handshake_limit = kLong;
  TablePeer peer(world, 1, options);
  const auto stranger = world.make_transport();
  const auto begin = [&] {
    const LinkPtr link = raw_dial(world, *stranger, peer.address);
    REQUIRE(say(world, link, dialer_hello(self(2, {"127.0.0.1", 7002}))).ok());
    static_cast<void>(expect<wire::Hello>(world, link));
    return link;
  };
  const auto refused_as = [&](LinkErrorKind kind) {
    REQUIRE(world.until([&] { return !peer.refused.empty(); }));
    CHECK(peer.refused == std::vector{kind});
    CHECK(peer.table->links() == 0);
    CHECK(peer.table->handshakes() == 0);
    peer.refused.clear();
  };
  {
    const LinkPtr early = begin();
    CHECK(peer.table->handshakes() == 1);
    REQUIRE(say(world, early, ping(1)).ok());
    refused_as(LinkErrorKind::malformed);
  }
  {
    const LinkPtr cut = begin();
    REQUIRE(world.run(cut->write(Bytes(message_frame(wire::Proof{})).first(40))).ok());
    cut->finish();
    refused_as(LinkErrorKind::broken);
  }
  {
    const LinkPtr gone = begin();
    gone->finish();
    refused_as(LinkErrorKind::closed_by_peer);
  }
  {
    const LinkPtr large = begin();
    REQUIRE(world.run(large->write(Bytes(chunk_frame(5000)).first(100))).ok());
    refused_as(LinkErrorKind::oversize);
  }
  {
    const LinkPtr false_proof = begin();
    REQUIRE(say(world, false_proof, wire::Proof{}).ok());
    CHECK(expect<wire::Refusal>(world, false_proof).reason == wire::RefusalReason::false_identity);
    false_proof->close();
    refused_as(LinkErrorKind::false_identity);
  }
  CHECK(peer.table->counters()[LinkErrorKind::false_identity] == 1);
  CHECK(peer.table->counters().handshake_timeouts == 0);
  CHECK(peer.pings.empty());
}

TEST_CASE("a false identity is counted by both tables, and its link ends") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  const Thief thief(identity(5), identity(7));
  TablePeer peer(world, 1), liar(world, [&] {
    Self self = testing::self(7, anywhere());
    self.identity = &thief;
    return self;
  }());
  liar.send(peer, ping(1));
  REQUIRE(world.until([&] { return !peer.refused.empty() && !liar.failures.empty(); }));
  CHECK(peer.refused == std::vector{LinkErrorKind::false_identity});
  CHECK(peer.table->counters()[LinkErrorKind::false_identity] == 1);
  CHECK(liar.table->counters()[LinkErrorKind::false_identity] == 1);
  CHECK(peer.pings.empty());
  // Nor is it believed when it is dialed.
  peer.table->send({PeerId{7}, liar.address}, ping(2));
  REQUIRE(world.until([&] { return !peer.failures.empty(); }));
  CHECK(peer.failures[0].kind == LinkErrorKind::false_identity);
  CHECK(peer.table->links() == 0);
  CHECK(liar.pings.empty());
}

TEST_CASE("a peer that is not allowed is refused in both directions") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  const auto closed = [](std::uint64_t id) {
    Self self = testing::self(id, anywhere());
    self.allowed = [](PeerId peer) { return peer == PeerId{3}; };
    return self;
  };
  TablePeer peer(world, closed(1)), stranger(world, 2), member(world, 3);
  member.send(peer, ping(1));
  REQUIRE(world.until([&] { return peer.pings.size() == 1; }));

  stranger.send(peer, ping(2));
  REQUIRE(world.until([&] { return !stranger.failures.empty() && !peer.refused.empty(); }));
  CHECK(stranger.failures[0].kind == LinkErrorKind::not_allowed);
  CHECK(contains(
      stranger.failures[0].sentence,
      to_string(peer.address) + " refused: this peer's list of peers does not name 0000000000000002"));
  CHECK(peer.refused == std::vector{LinkErrorKind::not_allowed});
  CHECK(peer.table->counters()[LinkErrorKind::not_allowed] == 1);
  CHECK(stranger.table->counters()[LinkErrorKind::not_allowed] == 1);

  peer.send(stranger, ping(3));
  REQUIRE(world.until([&] { return !peer.failures.empty() && !stranger.refused.empty(); }));
  CHECK(peer.failures[0].kind == LinkErrorKind::not_allowed);
  CHECK(contains(peer.failures[0].sentence, "the list of peers does not name 0000000000000002 (p2)"));
  CHECK(stranger.refused == std::vector{LinkErrorKind::not_allowed});
  CHECK(world.run(peer.table->dial_bulk({stranger.id, stranger.address})).error().kind ==
        LinkErrorKind::not_allowed);
  CHECK(peer.table->links() == 1);
  CHECK(stranger.table->links() == 0);
  CHECK(stranger.pings.empty());
}

}  // namespace starling::transport
