// The contract of transport.h and link.h, checked for every transport.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "tests/transport/world.h"
#include "transport/links/link.h"

namespace starling::transport {
namespace {

using namespace testing;

asio::awaitable<LinkStatus> write_all(LinkPtr link, std::vector<std::byte> bytes) {
  co_return co_await link->write(bytes);
}

// Sends `count` chunks of `floats` floats each, with values that identify them.
asio::awaitable<LinkStatus> send_chunks(LinkPtr link, std::uint32_t floats, std::uint64_t count, float sign) {
  std::vector<float> values(floats);
  for (std::uint64_t k = 0; k < count; ++k) {
    for (std::uint32_t i = 0; i < floats; ++i) values[i] = sign * static_cast<float>((i + 31 * k) % 4093);
    const wire::ChunkHead head{9, k * floats, floats, wire::ChunkKind::state};
    const LinkStatus sent = co_await write_chunk(*link, head, std::as_bytes(std::span(values)));
    if (!sent.ok()) co_return sent.error();
  }
  co_return Done{};
}

// Counts the chunks that arrive intact, until one does not or all have arrived.
asio::awaitable<std::uint64_t> receive_chunks(LinkPtr link, std::uint32_t floats, std::uint64_t count,
                                              float sign) {
  std::vector<float> values(floats);
  for (std::uint64_t k = 0; k < count; ++k) {
    const auto frame = co_await link->read();
    if (!frame.ok() || frame->kind != wire::FrameKind::chunk) co_return k;
    if (frame->chunk != wire::ChunkHead{9, k * floats, floats, wire::ChunkKind::state}) co_return k;
    if (reinterpret_cast<std::uintptr_t>(frame->body.data()) % 64 != 0) co_return k;
    if (frame->body.size() != floats * sizeof(float)) co_return k;
    for (std::uint32_t i = 0; i < floats; ++i) values[i] = sign * static_cast<float>((i + 31 * k) % 4093);
    if (std::memcmp(frame->body.data(), values.data(), frame->body.size()) != 0) co_return k;
  }
  co_return count;
}

LinkErrorKind kind_read(World& world, const LinkPtr& link) {
  const auto frame = world.run(link->read());
  REQUIRE_FALSE(frame.ok());
  CHECK_FALSE(frame.error().message.empty());
  return frame.error().kind;
}

}  // namespace

TEST_CASE("messages and chunks arrive in order and intact") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const wire::Message ping = wire::Ping{42, PeerId{7}, {}};
  std::vector<std::byte> all = message_frame(ping);
  const auto chunk = chunk_frame(1000, 5);
  all.insert(all.end(), chunk.begin(), chunk.end());
  const auto last = message_frame(wire::Ack{42, {}});
  all.insert(all.end(), last.begin(), last.end());
  const auto sending = world.begin(write_all(ends.near, all));

  auto frame = world.run(ends.far->read());
  REQUIRE(frame.ok());
  REQUIRE(frame->kind == wire::FrameKind::control);
  CHECK(wire::decode_message(frame->body).value() == ping);
  frame = world.run(ends.far->read());
  REQUIRE(frame.ok());
  CHECK(frame->kind == wire::FrameKind::chunk);
  CHECK(frame->chunk.exchange == 5);
  CHECK(std::memcmp(frame->body.data(), chunk.data() + wire::kChunkPrefixBytes, 4000) == 0);
  frame = world.run(ends.far->read());
  REQUIRE(frame.ok());
  CHECK(wire::decode_message(frame->body).value() == wire::Message{wire::Ack{42, {}}});

  REQUIRE(world.until([&] { return sending->has_value(); }));
  CHECK((*sending)->ok());
  CHECK(ends.near->traffic().sent == all.size());
  CHECK(ends.far->traffic().received == all.size());
  CHECK(ends.transport->traffic().sent == all.size());
}

TEST_CASE("a message of a type that only later versions have is ignored") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  // The last type of the union with the number of the next one; the checksum is computed anew.
  auto body = wire::encode_message(wire::Circuit{PeerId{7}});
  constexpr auto kLast = static_cast<std::uint8_t>(std::variant_size_v<wire::Message>);
  for (std::byte& byte : body) {
    if (byte != std::byte{kLast}) continue;
    byte = std::byte{kLast + 1};
    if (wire::is_later_message(body)) break;
    byte = std::byte{kLast};
  }
  REQUIRE(wire::is_later_message(body));
  std::vector<std::byte> all(wire::kFrameHeaderBytes);
  wire::write_control_header(body, std::span(all).first<wire::kFrameHeaderBytes>());
  all.insert(all.end(), body.begin(), body.end());
  const wire::Message ping = wire::Ping{42, PeerId{7}, {}};
  const auto next = message_frame(ping);
  all.insert(all.end(), next.begin(), next.end());
  const auto sending = world.begin(write_all(ends.near, all));
  const auto message = world.run(read_message(*ends.far));
  REQUIRE(message.ok());
  CHECK(*message == ping);
  REQUIRE(world.until([&] { return sending->has_value(); }));
}

TEST_CASE("chunks of 1 MiB pass intact in both directions at once") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  constexpr std::uint32_t kFloats = wire::kChunkFloatsMax;
  constexpr std::uint64_t kCount = 12;
  const auto out = world.begin(send_chunks(ends.near, kFloats, kCount, 1.0F));
  const auto back = world.begin(send_chunks(ends.far, kFloats, kCount, -1.0F));
  const auto far_got = world.begin(receive_chunks(ends.far, kFloats, kCount, 1.0F));
  const auto near_got = world.begin(receive_chunks(ends.near, kFloats, kCount, -1.0F));
  REQUIRE(world.until([&] { return far_got->has_value() && near_got->has_value() && *out && *back; }));
  CHECK(**far_got == kCount);
  CHECK(**near_got == kCount);
  CHECK((*out)->ok());
  CHECK((*back)->ok());
}

TEST_CASE("frames of every size arrive, with any segmentation by TCP") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  Random r(21);
  for (int round = 0; round < 60; ++round) {
    const auto frame =
        chunk_frame(static_cast<std::uint32_t>(1 + r.below(300)), 1 + static_cast<std::uint64_t>(round));
    std::size_t at = 0;
    const auto reading = world.begin([](LinkPtr link) -> asio::awaitable<std::uint64_t> {
      const auto got = co_await link->read();
      co_return got.ok() ? got->chunk.exchange : 0;
    }(ends.far));
    while (at < frame.size()) {
      const std::size_t n = 1 + r.below(frame.size() - at);
      std::vector<std::byte> piece(frame.begin() + static_cast<std::ptrdiff_t>(at),
                                   frame.begin() + static_cast<std::ptrdiff_t>(at + n));
      REQUIRE(world.run(write_all(ends.near, std::move(piece))).ok());
      at += n;
    }
    REQUIRE(world.until([&] { return reading->has_value(); }));
    REQUIRE(**reading == 1 + static_cast<std::uint64_t>(round));
  }
}

TEST_CASE("closing ends pending calls here, and the remote reads an end between two frames") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const auto pending = world.begin(ends.near->read());
  bool polled = false;
  asio::post(world.io, [&] { polled = true; });
  REQUIRE(world.until([&] { return polled; }));
  CHECK_FALSE(pending->has_value());
  ends.near->close();
  ends.near->close();
  REQUIRE(world.until([&] { return pending->has_value(); }));
  CHECK((*pending)->error().kind == LinkErrorKind::closed);
  CHECK_FALSE(ends.near->is_open());
  CHECK(kind_read(world, ends.far) == LinkErrorKind::closed_by_peer);
  CHECK(world.run(ends.near->write(bytes_of("x"))).error().kind == LinkErrorKind::closed);
}

TEST_CASE("closing a link ends a write that the remote never reads") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const auto pending = world.begin(write_all(ends.near, std::vector<std::byte>(std::size_t{64} << 20)));
  int turns = 0;
  asio::post(world.io, [&] { ++turns; });
  REQUIRE(world.until([&] { return turns > 0; }));
  ends.near->expires_after(std::chrono::milliseconds(30));
  REQUIRE(world.until([&] { return pending->has_value(); }));
  CHECK((*pending)->error().kind == LinkErrorKind::timed_out);
}

TEST_CASE("an end of stream inside a frame is reported as a broken link") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  const auto frame = chunk_frame(100);
  for (const std::size_t cut :
       {std::size_t{1}, std::size_t{23}, std::size_t{24}, std::size_t{40}, frame.size() - 1}) {
    Ends ends(world);
    REQUIRE(world.run(ends.near->write(Bytes(frame).first(cut))).ok());
    ends.near->close();
    CHECK(kind_read(world, ends.far) == LinkErrorKind::broken);
    CHECK(kind_read(world, ends.far) == LinkErrorKind::broken);
  }
}

TEST_CASE("an end that has finished writing can still receive") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  REQUIRE(world.run(ends.near->write(message_frame(wire::Ack{1, {}}))).ok());
  ends.near->finish();
  REQUIRE(world.run(ends.far->read()).ok());
  CHECK(kind_read(world, ends.far) == LinkErrorKind::closed_by_peer);
}

TEST_CASE("a hang-up by the remote is detected without reading, and not too early") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  const bool in_order = GENERATE(true, false);
  Ends ends(world);
  REQUIRE(world.run(ends.near->write(message_frame(wire::Ack{1, {}}))).ok());
  CHECK_FALSE(ends.far->hung_up());
  if (in_order) {
    ends.near->finish();
  } else {
    ends.near->close();
  }
  const auto look_again = [&] { asio::post(world.io, [] {}); };
  CHECK(world.until([&] {
    if (ends.far->hung_up()) return true;
    look_again();
    return false;
  }));
  CHECK(world.run(ends.far->read()).ok());  // sent before
  CHECK(kind_read(world, ends.far) == LinkErrorKind::closed_by_peer);
}

TEST_CASE("after one end has finished, frames from the other still arrive") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  ends.near->finish();
  REQUIRE(world.run(ends.far->write(message_frame(wire::Ack{1, {}}))).ok());
  CHECK(world.run(ends.near->read()).ok());
  ends.far->close();
  CHECK(kind_read(world, ends.near) == LinkErrorKind::closed_by_peer);
}

TEST_CASE("invalid frames are rejected by kind, and the link is closed") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  const auto message = message_frame(wire::Ping{1, PeerId{2}, {}});
  const auto chunk = chunk_frame(10);
  struct Case {
    std::vector<std::byte> bytes;
    LinkErrorKind kind;
  };
  const Bytes http = bytes_of("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  auto oversize = message;
  store(oversize.data() + 8, std::uint32_t{0xfffffff0});
  const std::vector<Case> cases = {
      {{http.begin(), http.end()}, LinkErrorKind::bad_magic},
      {oversize, LinkErrorKind::oversize},
      {damaged(message, 4, std::byte{9}), LinkErrorKind::bad_version},
      {damaged(message, 5, std::byte{9}), LinkErrorKind::malformed},
      {damaged(message, 16, message[16] ^ std::byte{1}), LinkErrorKind::bad_checksum},
      {damaged(message, message.size() - 1, message.back() ^ std::byte{1}), LinkErrorKind::bad_checksum},
      {damaged(chunk, 30, std::byte{0xff}), LinkErrorKind::bad_checksum},
      {damaged(chunk, chunk.size() - 2, chunk[chunk.size() - 2] ^ std::byte{4}), LinkErrorKind::bad_checksum},
  };
  for (const Case& c : cases) {
    // TLS protects the bytes by itself.
    if (world.kind == Kind::tls && c.kind == LinkErrorKind::bad_checksum) continue;
    Ends ends(world);
    REQUIRE(world.run(ends.near->write(c.bytes)).ok());
    CHECK(kind_read(world, ends.far) == c.kind);
    CHECK_FALSE(ends.far->is_open());
    CHECK(kind_read(world, ends.far) == c.kind);
  }
}

TEST_CASE("a chunk with a valid checksum and an invalid head is malformed") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const float value = 1;
  std::array<std::byte, wire::kChunkPrefixBytes> prefix;
  const Bytes floats = std::as_bytes(std::span(&value, 1));
  wire::write_chunk_prefix({1, 0, 1, wire::ChunkKind::state, Payload::f32, 0.75F}, floats, prefix);
  REQUIRE(world.run(ends.near->write(prefix, floats)).ok());
  CHECK(kind_read(world, ends.far) == LinkErrorKind::malformed);
}

TEST_CASE("random bytes are never accepted as a frame") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Random r(22);
  for (int i = 0; i < 50; ++i) {
    Ends ends(world);
    std::vector<std::byte> noise(1 + r.below(400));
    for (std::byte& b : noise) b = static_cast<std::byte>(r.below(256));
    REQUIRE(world.run(ends.near->write(noise)).ok());
    ends.near->close();
    const LinkErrorKind kind = kind_read(world, ends.far);
    CHECK((kind == LinkErrorKind::bad_magic || kind == LinkErrorKind::broken));
  }
}

TEST_CASE("a limit set on a link rejects a larger frame before reading its body") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  ends.far->limit_body(1000);
  REQUIRE(world.run(ends.near->write(chunk_frame(240))).ok());
  REQUIRE(world.run(ends.near->write(chunk_frame(241))).ok());
  CHECK(world.run(ends.far->read()).ok());
  CHECK(kind_read(world, ends.far) == LinkErrorKind::oversize);
}

TEST_CASE("a read from a silent remote ends at the deadline, unless it was cancelled") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  ends.far->expires_after(std::chrono::milliseconds(5));
  ends.far->expires_never();
  ends.near->expires_after(std::chrono::seconds(100));
  ends.near->expires_after(std::chrono::milliseconds(20));  // an earlier deadline applies too
  CHECK(kind_read(world, ends.near) == LinkErrorKind::timed_out);
  CHECK(ends.far->is_open());
  CHECK(kind_read(world, ends.far) == LinkErrorKind::closed_by_peer);
}

TEST_CASE("a dial to a closed port fails with the address") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Address nobody;
  {
    Ends ends(world);
    nobody = ends.listener->address();
  }
  const auto transport = world.make_transport();
  const auto dialed = world.run(transport->dial(nobody, kLong));
  REQUIRE_FALSE(dialed.ok());
  CHECK(dialed.error().kind == LinkErrorKind::unreachable);
  CHECK(dialed.error().message == "cannot reach " + to_string(nobody) + ": Connection refused");
}

TEST_CASE("listening on a used port fails with a clear error") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Ends ends(world);
  const Address taken = ends.listener->address();
  const auto second = ends.transport->listen(taken, [](LinkPtr) {});
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().message ==
        "cannot listen at " + to_string(taken) +
            ": the port is in use by another program; choose another, or 0 for any");
}

TEST_CASE("a port can be reused right after its links and listener are closed") {
  World world(GENERATE(Kind::tcp, Kind::tls, Kind::memory));
  Address address;
  {
    Ends ends(world);
    address = ends.listener->address();
    ends.far->close();  // the listening side closes first, which leaves the port in TIME_WAIT
    CHECK(kind_read(world, ends.near) == LinkErrorKind::closed_by_peer);
  }
  const auto transport = world.make_transport();
  LinkPtr accepted;
  const auto listener = transport->listen(address, [&](LinkPtr link) { accepted = std::move(link); });
  REQUIRE(listener.ok());
  CHECK((*listener)->address() == address);
  CHECK(world.run(transport->dial(address, kLong)).ok());
  CHECK(world.until([&] { return accepted != nullptr; }));
}

TEST_CASE("a host name is resolved, and one that does not exist is unreachable") {
  World world(Kind::tcp);
  TcpTransport transport(world.executor());
  LinkPtr accepted;
  const auto listener = transport.listen({"localhost", 0}, [&](LinkPtr link) { accepted = std::move(link); });
  REQUIRE(listener.ok());
  CHECK(world.run(transport.dial((*listener)->address(), kLong)).ok());
  CHECK(world.until([&] { return accepted != nullptr; }));

  const auto nowhere = world.run(transport.dial({"no-such-host.invalid", 7100}, kLong));
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().message.find("no-such-host.invalid:7100") != std::string::npos);
}

TEST_CASE("an unanswered TCP dial ends at its time limit") {
  // A listener whose queue is full lets further connections hang.
  const int full = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(full, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(full, 0) == 0);
  REQUIRE(::getsockname(full, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  std::vector<int> fillers;
  for (int i = 0; i < 4; ++i) {
    fillers.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    static_cast<void>(::connect(fillers.back(), reinterpret_cast<sockaddr*>(&address), size));
  }

  World world(Kind::tcp);
  TcpTransport transport(world.executor());
  const Address to{"127.0.0.1", ntohs(address.sin_port)};
  const auto dialed = world.run(transport.dial(to, std::chrono::milliseconds(50)));
  REQUIRE_FALSE(dialed.ok());
  CHECK(dialed.error().kind == LinkErrorKind::unreachable);
  for (const int filler : fillers) ::close(filler);
  ::close(full);
}

TEST_CASE("a memory link can be cut at any time or after a given number of bytes") {
  World world(Kind::memory);
  {
    Ends ends(world);
    const auto pending = world.begin(ends.far->read());
    world.network.cut(ends.listener->address());
    REQUIRE(world.until([&] { return pending->has_value(); }));
    CHECK((*pending)->error().kind == LinkErrorKind::broken);
    CHECK(kind_read(world, ends.near) == LinkErrorKind::broken);
  }
  Ends ends(world);
  world.network.cut_next_after(ends.listener->address(), 100);
  ends.far = nullptr;
  const auto dialed = world.run(ends.transport->dial(ends.listener->address(), kLong));
  REQUIRE(dialed.ok());
  REQUIRE(world.until([&] { return ends.far != nullptr; }));
  const LinkPtr near = *dialed;
  CHECK(world.run(near->write(chunk_frame(100))).error().kind == LinkErrorKind::broken);
  CHECK(kind_read(world, ends.far) == LinkErrorKind::broken);
}

}  // namespace starling::transport
