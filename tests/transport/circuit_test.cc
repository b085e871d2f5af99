// Links inside an outer link.
#include "transport/dial/circuit.h"

#include <vector>

#include "tests/transport/reach_peer.h"
#include "transport/tls/tls.h"

namespace starling::transport {
namespace {

using namespace testing;

LinkPtr inside(Transport& transport, LinkPtr outer, TlsRole role) {
  auto inner = transport.link_over(std::move(outer), role);
  REQUIRE(inner.ok());
  return *inner;
}

// A link inside the connection of two ends, without a relay.
struct InnerEnds {
  explicit InnerEnds(World& world)
      : outer(world),
        near(inside(*outer.transport, outer.near, TlsRole::dialer)),
        far(inside(*outer.transport, outer.far, TlsRole::accepter)) {}

  Ends outer;
  LinkPtr near, far;
};

// Passes relayed frames on, and flips one bit in the body of those after `good` ones.
asio::awaitable<void> tamper(LinkPtr from, LinkPtr to, int good) {
  from->accept_relayed();
  for (;;) {
    const auto frame = co_await from->read();
    if (!frame.ok()) break;
    if (--good < 0) frame->body.back() ^= std::byte{1};
    std::array<std::byte, wire::kFrameHeaderBytes> header;
    wire::write_relayed_header(frame->body, header);
    if (!(co_await to->write(header, frame->body)).ok()) break;
  }
  to->close();
}

}  // namespace

TEST_CASE("a circuit carries chunks in both directions, and its bytes are counted once") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  InnerEnds ends(world);
  CHECK(ends.near->remote() == ends.outer.near->remote());
  CHECK(ends.far->remote() == ends.outer.far->remote());
  for (int round = 0; round < 3; ++round) check_passes(world, ends.near, ends.far);
  const std::uint64_t inner = ends.near->traffic().sent + ends.far->traffic().sent;
  const std::uint64_t total = ends.outer.transport->traffic().sent;
  CHECK(total >= inner);
  CHECK(total < inner + inner / 20);
}

TEST_CASE("a finished direction of a circuit ends at the other end, and the other direction continues") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  InnerEnds ends(world);
  const auto frame = chunk_frame(1000);
  REQUIRE(world.run(write_bytes(ends.near, frame)).ok());
  ends.near->finish();
  REQUIRE(world.run(ends.far->read()).ok());
  REQUIRE(world.until([&] { return ends.far->hung_up(); }));
  REQUIRE(world.run(write_bytes(ends.far, frame)).ok());  // a link closes once it has read the end
  REQUIRE(world.run(ends.near->read()).ok());
  CHECK(end_of(world, ends.far) == LinkErrorKind::closed_by_peer);
  CHECK(end_of(world, ends.near) == LinkErrorKind::closed_by_peer);
  CHECK(world.until([&] { return !ends.outer.near->is_open() && !ends.outer.far->is_open(); }));
}

TEST_CASE("a closed circuit delivers what was written, ends at the other end, and closes its outer link") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  InnerEnds ends(world);
  REQUIRE(world.run(write_bytes(ends.near, chunk_frame(20'000))).ok());
  ends.near->close();
  REQUIRE(world.run(ends.far->read()).ok());
  CHECK(end_of(world, ends.far) == LinkErrorKind::closed_by_peer);
  ends.far->close();
  CHECK(world.until([&] { return !ends.outer.near->is_open() && !ends.outer.far->is_open(); }));
}

TEST_CASE("a dropped circuit closes its outer link, even if the other end only sends") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  InnerEnds ends(world);
  check_passes(world, ends.near, ends.far);
  ends.near.reset();
  const auto sending = world.begin([](LinkPtr link) -> asio::awaitable<LinkStatus> {
    const auto frame = chunk_frame(wire::kChunkFloatsMax);
    for (;;) {
      const LinkStatus sent = co_await link->write(frame);
      if (!sent.ok()) co_return sent;
    }
  }(ends.far));
  CHECK(world.until([&] { return sending->has_value() && !ends.outer.near->is_open(); }));
}

TEST_CASE("both ends of a circuit see that the outer link broke") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  InnerEnds ends(world);
  check_passes(world, ends.near, ends.far);
  ends.outer.far->close();
  end_of(world, ends.near);
  end_of(world, ends.far);
}

TEST_CASE("relayed bytes outside of a circuit are malformed, and so is a message in a circuit") {
  World world(GENERATE(Kind::tcp, Kind::tls));
  Ends ends(world);
  const std::vector<std::byte> body(10);
  std::vector<std::byte> relayed(wire::kFrameHeaderBytes + body.size());
  wire::write_relayed_header(body, std::span(relayed).first<wire::kFrameHeaderBytes>());
  REQUIRE(world.run(write_bytes(ends.near, relayed)).ok());
  CHECK(end_of(world, ends.far) == LinkErrorKind::malformed);

  Ends other(world);
  const LinkPtr inner = inside(*other.transport, other.far, TlsRole::accepter);
  REQUIRE(world.run(write_bytes(other.near, message_frame(ping(1)))).ok());
  end_of(world, inner);
  CHECK(world.until([&] { return !other.far->is_open(); }));
}

TEST_CASE("a relay that changes a byte of a circuit with TLS is detected by the end that receives it") {
  World world(Kind::tls);
  Ends first(world), second(world);
  // Past the handshake of TLS, which is a frame or two in each direction.
  spawn(world.executor(), tamper(first.far, second.near, 4));
  spawn(world.executor(), tamper(second.near, first.far, 1000));
  const LinkPtr near = inside(*first.transport, first.near, TlsRole::dialer);
  const LinkPtr far = inside(*second.transport, second.far, TlsRole::accepter);
  std::size_t intact = 0;
  LinkErrorKind kind = LinkErrorKind::closed;
  while (intact < 10) {
    REQUIRE(world.run(write_bytes(near, message_frame(ping(intact)))).ok());
    const auto frame = world.run(far->read());
    if (!frame.ok()) {
      kind = frame.error().kind;
      break;
    }
    CHECK(wire::decode_message(frame->body).value() == ping(intact));
    ++intact;
  }
  CHECK(intact >= 1);
  CHECK(kind == LinkErrorKind::bad_checksum);
}

}  // namespace starling::transport
