// Links made slower than they are: the arithmetic by hand, and both transports in ratios that hold on any machine.
#include "transport/shaped.h"

#include <vector>

#include "tests/catch.h"
#include "tests/transport/world.h"
#include "transport/message_io.h"

namespace starling::transport {
namespace {

using namespace testing;
using Clock = std::chrono::steady_clock;

constexpr Duration ms(int n) {
  return std::chrono::milliseconds(n);
}

// Sends so many chunks of 8,000 bytes and reads them at the other end; the seconds that this took.
double carry(World& world, const LinkShape& shape, int chunks) {
  Ends ends(world);
  ends.transport->shape_links(shape);
  const auto frame = chunk_frame(2000);
  const auto begun = Clock::now();
  const auto sent = world.begin([](LinkPtr link, std::vector<std::byte> bytes, int count) -> asio::awaitable<bool> {
    for (int i = 0; i < count; ++i) {
      if (!(co_await link->write(bytes)).ok()) co_return false;
    }
    co_return true;
  }(ends.near, frame, chunks));
  for (int i = 0; i < chunks; ++i) {
    const auto read = world.run(ends.far->read());
    REQUIRE(read.ok());
    REQUIRE(read->body.size() == 8000);
  }
  REQUIRE(sent->value());
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

}  // namespace

TEST_CASE("bytes leave one after the other at the bandwidth, and arrive a latency later") {
  const LinkShape shape{ms(5), 8e6};  // a byte a microsecond
  LinkPacer pacer;
  REQUIRE(pacer.arrival(shape, ms(100), 1000) == ms(106));
  REQUIRE(pacer.arrival(shape, ms(100), 2000) == ms(108));
  REQUIRE(pacer.free() == ms(103));
  REQUIRE(pacer.arrival(shape, ms(200), 1000) == ms(206));  // it has rested: nothing is saved up
  REQUIRE(pacer.arrival(shape, ms(200), 0) == ms(206));
}

TEST_CASE("without a bandwidth only the latency counts, and a shorter latency lets nothing overtake") {
  LinkPacer pacer;
  REQUIRE(pacer.arrival({ms(30), 0}, ms(10), 1 << 20) == ms(40));
  REQUIRE(pacer.arrival({ms(5), 0}, ms(11), 10) == ms(40));
  REQUIRE(pacer.arrival({ms(5), 0}, ms(50), 10) == ms(55));
}

TEST_CASE("a link of 10 Mbit/s carries 10 Mbit/s, over TCP and in memory") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    World world(kind);
    constexpr int kChunks = 50;
    const double bits = kChunks * 8.0 * (8000 + wire::kChunkPrefixBytes);
    const double seconds = carry(world, {Duration{0}, 1e7}, kChunks);
    REQUIRE(seconds >= 0.99 * bits / 1e7);  // never faster
    REQUIRE(seconds < 10 * bits / 1e7);     // and slower only where this machine is
    // Ten times the bandwidth takes at most half the time, unless the machine itself is busy: the least of five.
    double fast = seconds;
    for (int i = 0; i < 5; ++i) fast = std::min(fast, carry(world, {Duration{0}, 1e8}, kChunks));
    REQUIRE(fast < seconds / 2);
  }
}

TEST_CASE("a latency delays each frame, and all that is on its way at once by as much") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    World world(kind);
    REQUIRE(carry(world, {ms(40), 0}, 1) >= 0.04);
    const double many = carry(world, {ms(40), 0}, 100);
    REQUIRE(many >= 0.04);
    REQUIRE(many < 100 * 0.04 / 2);
  }
}

TEST_CASE("a shaped link delivers in order all that was written before it was finished, and tells an end as such") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    World world(kind);
    Ends ends(world);
    ends.transport->shape_links({ms(20), 2e7});
    for (std::uint64_t i = 1; i <= 10; ++i) REQUIRE(world.run(ends.near->write(chunk_frame(500, i))).ok());
    ends.near->finish();
    for (std::uint64_t i = 1; i <= 10; ++i) {
      const auto frame = world.run(ends.far->read());
      REQUIRE(frame.ok());
      REQUIRE(frame->chunk.exchange == i);
    }
    REQUIRE(world.run(ends.far->read()).error().kind == LinkErrorKind::closed_by_peer);
  }
}

TEST_CASE("closing a shaped link lets a writer go that waits for it") {
  for (const Kind kind : {Kind::tcp, Kind::memory}) {
    World world(kind);
    Ends ends(world);
    ends.transport->shape_links({ms(1), 1e4});  // a kilobyte a second
    const auto frame = chunk_frame(5000);
    const auto writing = world.begin(ends.near->write(frame));
    for (int i = 0; i < 10; ++i) world.io.poll_one();
    REQUIRE_FALSE(writing->has_value());
    ends.near->close();
    REQUIRE(world.until([&] { return writing->has_value(); }));
    REQUIRE((*writing)->error().kind == LinkErrorKind::closed);
  }
}

TEST_CASE("a link that nobody holds any more ends, whatever is still on its way") {
  World world(Kind::tcp);
  Ends ends(world);
  ends.transport->shape_links({ms(1), 1e4});
  REQUIRE(world.run(ends.near->write(chunk_frame(1))).ok());
  ends.near.reset();
  REQUIRE_FALSE(world.run(ends.far->read()).ok());
}

}  // namespace starling::transport
