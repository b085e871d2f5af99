#include "transport/trust/handshake.h"

#include <string>

#include "tests/contains.h"
#include "tests/transport/world.h"

namespace starling::transport {
namespace {

using namespace testing;

Self peer(std::uint64_t id, const std::string& swarm = "test") {
  return self(id, {"127.0.0.1", static_cast<std::uint16_t>(7000 + id)}, swarm);
}

struct Both {
  LinkResult<wire::Hello> dialer, accepter;
};

Both shake(World& world, Ends& ends, const Self& dialer, const Self& accepter) {
  const auto near = world.begin(introduce(*ends.near, dialer, kLong));
  const auto far = world.begin(admit(*ends.far, accepter, kLong));
  REQUIRE(world.until([&] { return near->has_value() && far->has_value(); }));
  return {**near, **far};
}

}  // namespace

TEST_CASE("two peers of one swarm learn each other's identity and the purpose of the connection") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  Self mine = peer(1);
  mine.hello.purpose = wire::Purpose::bulk;
  const Both both = shake(world, ends, mine, peer(2));
  REQUIRE(both.dialer.ok());
  REQUIRE(both.accepter.ok());
  CHECK(both.accepter->id == PeerId{1});
  CHECK(both.accepter->name == mine.hello.name);
  CHECK(both.accepter->address == mine.hello.address);
  CHECK(both.accepter->purpose == wire::Purpose::bulk);
  CHECK(both.dialer->id == PeerId{2});
  CHECK(both.dialer->purpose == wire::Purpose::bulk);
  CHECK(ends.near->is_open());
  CHECK(ends.far->is_open());
}

TEST_CASE("a peer of another swarm is rejected with a reason") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const Both both = shake(world, ends, peer(1, "a"), peer(2, "b"));
  REQUIRE_FALSE(both.dialer.ok());
  REQUIRE_FALSE(both.accepter.ok());
  CHECK(both.accepter.error().kind == LinkErrorKind::wrong_swarm);
  CHECK(both.dialer.error().kind == LinkErrorKind::refused);
  CHECK(contains(both.dialer.error().message, "swarm 'a' refused: this peer belongs to swarm 'b'"));
  CHECK(contains(both.dialer.error().message, to_string(ends.near->remote())));
  CHECK_FALSE(ends.far->is_open());
}

TEST_CASE("a peer that dials itself is rejected") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const Both both = shake(world, ends, peer(1), peer(1));
  CHECK(both.accepter.error().kind == LinkErrorKind::same_peer);
  CHECK(both.dialer.error().kind == LinkErrorKind::refused);
}

TEST_CASE("a dialer with another protocol version receives the version used here") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const auto far = world.begin(admit(*ends.far, peer(2), kLong));
  const auto greeting = damaged(message_frame(dialer_hello(peer(1))), 4, std::byte{7});
  REQUIRE(world.run(ends.near->write(greeting)).ok());
  const auto answer = world.run(read_message(*ends.near));
  REQUIRE(answer.ok());
  const auto* refusal = std::get_if<wire::Refusal>(&*answer);
  REQUIRE(refusal != nullptr);
  CHECK(refusal->reason == wire::RefusalReason::wrong_version);
  CHECK(contains(refusal->text, "version 7"));
  ends.near->close();
  REQUIRE(world.until([&] { return far->has_value(); }));
  CHECK((*far)->error().kind == LinkErrorKind::bad_version);
}

TEST_CASE("a remote that answers a Hello with other data is not a Starling peer") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const auto near = world.begin(introduce(*ends.near, peer(1), kLong));
  REQUIRE(world.run(ends.far->write(bytes_of("HTTP/1.1 400 Bad Request\r\n\r\n"))).ok());
  REQUIRE(world.until([&] { return near->has_value(); }));
  CHECK((*near)->error().kind == LinkErrorKind::bad_magic);
  CHECK(contains((*near)->error().message, to_string(ends.near->remote()) + " is not a Starling peer: "));
}

TEST_CASE("a handshake with a silent remote times out") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const auto accepted = world.run(admit(*ends.far, peer(2), std::chrono::milliseconds(10)));
  REQUIRE_FALSE(accepted.ok());
  CHECK(accepted.error().kind == LinkErrorKind::timed_out);
}

TEST_CASE("a large first frame is rejected unread") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const auto far = world.begin(admit(*ends.far, peer(2), kLong));
  REQUIRE(world.run(ends.near->write(Bytes(chunk_frame(5000)).first(100))).ok());
  REQUIRE(world.until([&] { return far->has_value(); }));
  CHECK((*far)->error().kind == LinkErrorKind::oversize);
}

TEST_CASE("a first message other than a Hello is rejected") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const auto far = world.begin(admit(*ends.far, peer(2), kLong));
  REQUIRE(world.run(ends.near->write(message_frame(wire::Ping{1, PeerId{2}, {}}))).ok());
  REQUIRE(world.until([&] { return far->has_value(); }));
  CHECK((*far)->error().kind == LinkErrorKind::malformed);
}

}  // namespace starling::transport
