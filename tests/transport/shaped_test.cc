// Shaped links: exact arithmetic, and ratios over both transports that hold on any machine.
#include "transport/links/shaped.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/transport/world.h"
#include "transport/links/link_table.h"

namespace starling::transport {
namespace {

using namespace testing;
using Clock = std::chrono::steady_clock;

constexpr Duration ms(int n) { return std::chrono::milliseconds(n); }

// Sends `chunks` chunks of 8,000 bytes and reads them at the other end; returns the elapsed seconds.
double carry(World& world, const LinkShape& shape, int chunks) {
  Ends ends(world);
  ends.transport->shapes().set_all(shape);
  const auto frame = chunk_frame(2000);
  const auto begun = Clock::now();
  const auto sent =
      world.begin([](LinkPtr link, std::vector<std::byte> bytes, int count) -> asio::awaitable<bool> {
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

TEST_CASE("bytes leave at the link's bandwidth and arrive one latency later") {
  const LinkShape shape{ms(5), 8e6};  // a byte a microsecond
  LinkPacer pacer;
  REQUIRE(pacer.arrival(shape, ms(100), 1000) == ms(106));
  REQUIRE(pacer.arrival(shape, ms(100), 2000) == ms(108));
  REQUIRE(pacer.free() == ms(103));
  REQUIRE(pacer.arrival(shape, ms(200), 1000) == ms(206));  // idle time is not credited
  REQUIRE(pacer.arrival(shape, ms(200), 0) == ms(206));
}

TEST_CASE("without a bandwidth only the latency applies, and a shorter latency causes no reordering") {
  LinkPacer pacer;
  REQUIRE(pacer.arrival({ms(30), 0}, ms(10), 1 << 20) == ms(40));
  REQUIRE(pacer.arrival({ms(5), 0}, ms(11), 10) == ms(40));
  REQUIRE(pacer.arrival({ms(5), 0}, ms(50), 10) == ms(55));
}

TEST_CASE("retransmitted data is late, and so is everything after it") {
  const LinkShape shape{ms(5), 8e6};
  LinkPacer pacer;
  REQUIRE(pacer.arrival(shape, ms(100), 1000, ms(200)) == ms(306));
  REQUIRE(pacer.free() == ms(101));  // the bandwidth was used nevertheless
  REQUIRE(pacer.arrival(shape, ms(102), 1000) == ms(306));
  REQUIRE(pacer.arrival(shape, ms(400), 1000) == ms(406));
}

TEST_CASE("a shape for one remote applies to its links, existing and future, and to no others") {
  const Address a{"a", 1}, b{"b", 2};
  const LinkShape usual{ms(1), 1e6}, slow{ms(9), 1e3}, slower{ms(10), 1e3};
  LinkShapes shapes;
  const auto anyone = shapes.to_anyone(), to_a = shapes.to(a), to_b = shapes.to(b);
  shapes.set_all(usual);
  REQUIRE((*anyone == usual && *to_a == usual && *to_b == usual));
  shapes.set_to(a, slow);
  REQUIRE((*anyone == usual && *to_a == slow && *to_b == usual));
  REQUIRE(shapes.to(a) == to_a);
  shapes.set_all({});
  REQUIRE((anyone->plain() && *to_a == slow && to_b->plain()));
  shapes.set_to(b, slow);
  shapes.set_to(a, slower);
  REQUIRE((anyone->plain() && *to_a == slower && *to_b == slow));
  shapes.set_to({"c", 3}, slow);  // no link to it yet
  REQUIRE(*shapes.to({"c", 3}) == slow);
  REQUIRE(shapes.to({"d", 4})->plain());
  REQUIRE(*shapes.to({"c", 3}) == slow);
}

TEST_CASE("a link of 10 Mbit/s carries 10 Mbit/s, over TCP and in memory") {
  for (const Kind kind : {Kind::tcp, Kind::tls, Kind::memory}) {
    World world(kind);
    constexpr int kChunks = 50;
    const double bits = kChunks * 8.0 * (8000 + wire::kChunkPrefixBytes);
    const double seconds = carry(world, {Duration{0}, 1e7}, kChunks);
    REQUIRE(seconds >= 0.99 * bits / 1e7);  // never faster than the shape
    // Little slower, and ten times the bandwidth takes at most half the time, once the machine is not busy.
    REQUIRE(eventually([&] { return carry(world, {Duration{0}, 1e7}, kChunks) < 2 * bits / 1e7; }));
    REQUIRE(eventually([&] { return carry(world, {Duration{0}, 1e8}, kChunks) < seconds / 2; }));
  }
}

TEST_CASE("latency delays each frame, and frames in flight by the same amount") {
  for (const Kind kind : {Kind::tcp, Kind::tls, Kind::memory}) {
    World world(kind);
    REQUIRE(carry(world, {ms(40), 0}, 1) >= 0.04);
    REQUIRE(eventually([&] {
      const double many = carry(world, {ms(40), 0}, 100);
      REQUIRE(many >= 0.04);
      return many < 100 * 0.04 / 2;
    }));
  }
}

TEST_CASE("a shaped link delivers everything written before finish() in order, then a clean end") {
  for (const Kind kind : {Kind::tcp, Kind::tls, Kind::memory}) {
    World world(kind);
    Ends ends(world);
    ends.transport->shapes().set_all({ms(20), 2e7});
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

TEST_CASE("bytes stay in order while a link's shape changes, from unshaped to slow to lossy and back") {
  for (const Kind kind : {Kind::tcp, Kind::tls, Kind::memory}) {
    World world(kind);
    Ends ends(world);
    ends.near->travel_as(ends.transport->shapes().to(ends.listener->address()));
    const std::vector<LinkShape> shapes = {
        {}, {ms(30), 0, 0}, {ms(1), 1e8, 0}, {ms(1), 0, 0.02}, {ms(5), 0, 0}, {}, {Duration{0}, 1e8, 0}};
    constexpr std::uint64_t kFrames = 60;
    const auto sent = world.begin([](Ends& e, const std::vector<LinkShape>& all) -> asio::awaitable<bool> {
      for (std::uint64_t i = 0; i < kFrames; ++i) {
        e.transport->shapes().set_to(e.listener->address(), all[i / 2 % all.size()]);
        const auto frame = chunk_frame(1 + static_cast<std::uint32_t>(i * 700 % 5000), i + 1);
        if (!(co_await e.near->write(frame)).ok()) co_return false;
      }
      e.near->finish();
      co_return true;
    }(ends, shapes));
    for (std::uint64_t i = 1; i <= kFrames; ++i) {
      const auto frame = world.run(ends.far->read());
      REQUIRE(frame.ok());
      REQUIRE(frame->chunk.exchange == i);
    }
    REQUIRE(sent->value());
    REQUIRE(world.run(ends.far->read()).error().kind == LinkErrorKind::closed_by_peer);
  }
}

TEST_CASE("a link table shapes the links to one remote at either end, and no others") {
  struct TestPeer {
    TestPeer(World& world, std::uint64_t number) : transport(world.make_transport()) {
      Self self = testing::self(number, anywhere());
      LinkTableEvents events;
      events.on_bulk = [this](LinkPtr link, const wire::Hello&) { accepted = std::move(link); };
      links = std::make_unique<LinkTable>(world.executor(), *transport, self, std::move(events));
      self.hello.address = address = *links->listen(anywhere());
      links->set_hello(self.hello);
    }
    std::unique_ptr<Transport> transport;
    std::unique_ptr<LinkTable> links;
    Address address;
    LinkPtr accepted;
  };
  for (const Kind kind : {Kind::tcp, Kind::tls, Kind::memory}) {
    World world(kind);
    TestPeer slow(world, 1), near(world, 2), far(world, 3);
    const auto seconds = [&](Link& from, Link& to) {
      const auto begun = Clock::now();
      REQUIRE(world.run(from.write(chunk_frame(100))).ok());
      REQUIRE(world.run(to.read()).ok());
      return std::chrono::duration<double>(Clock::now() - begun).count();
    };
    const auto connect = [&](TestPeer& from, TestPeer& to) {
      auto dialed = world.run(from.links->dial_bulk({{}, to.address}));
      REQUIRE(dialed.ok());
      REQUIRE(world.until([&] { return to.accepted != nullptr; }));
      return std::pair{dialed->link, std::exchange(to.accepted, nullptr)};
    };
    const auto [slow_out, near_in] = connect(slow, near);
    const auto [far_out, slow_in] = connect(far, slow);
    const auto [far_out2, near_in2] = connect(far, near);
    // The links exist already; the setting applies to both directions of the slow one.
    for (TestPeer* peer : {&near, &far}) {
      slow.transport->shapes().set_to(peer->address, {ms(40), 0, 0});
      peer->transport->shapes().set_to(slow.address, {ms(40), 0, 0});
    }
    for (const auto& [a, b] : {std::pair{slow_out, near_in}, {far_out, slow_in}}) {
      REQUIRE(seconds(*a, *b) >= 0.04);
      REQUIRE(seconds(*b, *a) >= 0.04);
    }
    REQUIRE(eventually([&] { return seconds(*far_out2, *near_in2) < 0.04; }));
    REQUIRE(eventually([&] { return seconds(*near_in2, *far_out2) < 0.04; }));
    // And to a link made afterwards.
    const auto [near_out, slow_in2] = connect(near, slow);
    REQUIRE(seconds(*near_out, *slow_in2) >= 0.04);
    REQUIRE(seconds(*slow_in2, *near_out) >= 0.04);
  }
}

TEST_CASE("closing a shaped link releases a waiting writer") {
  for (const Kind kind : {Kind::tcp, Kind::tls, Kind::memory}) {
    World world(kind);
    Ends ends(world);
    ends.transport->shapes().set_all({ms(1), 1e4});  // about 1 kB/s
    const auto frame = chunk_frame(5000);
    const auto writing = world.begin(ends.near->write(frame));
    for (int i = 0; i < 10; ++i) world.io.poll_one();
    REQUIRE_FALSE(writing->has_value());
    ends.near->close();
    REQUIRE(world.until([&] { return writing->has_value(); }));
    REQUIRE((*writing)->error().kind == LinkErrorKind::closed);
  }
}

TEST_CASE("a link ends when its last owner drops it, even with data in flight") {
  World world(Kind::tcp);
  Ends ends(world);
  ends.transport->shapes().set_all({ms(1), 1e4});
  REQUIRE(world.run(ends.near->write(chunk_frame(1))).ok());
  ends.near.reset();
  REQUIRE_FALSE(world.run(ends.far->read()).ok());
}

}  // namespace starling::transport
