#include "wire/frame.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "base/program.h"
#include "base/random.h"
#include "tests/catch.h"
#include "tests/wire/random_message.h"
#include "wire/codec.h"

namespace starling::wire {
namespace {

using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

HeaderBytes control_header(Bytes body) {
  HeaderBytes header;
  write_control_header(body, header);
  return header;
}

FrameFault fault_of(const HeaderBytes& header) {
  const auto parsed = FrameHeader::parse(header);
  REQUIRE_FALSE(parsed.ok());
  CHECK_FALSE(parsed.error().message.empty());
  return parsed.error().fault;
}

// A receiver's validation of bytes that should be one complete frame.
bool accepted(Bytes frame) {
  if (frame.size() < kFrameHeaderBytes) return false;
  const auto header = FrameHeader::parse(frame.first<kFrameHeaderBytes>());
  if (!header.ok() || frame.size() != kFrameHeaderBytes + header->body_bytes) return false;
  const Bytes body = frame.subspan(kFrameHeaderBytes);
  if (header->kind == FrameKind::control) {
    return control_checksum(frame, body) == header->checksum && decode_message(body).ok();
  }
  if (chunk_checksum(frame.first<kChunkPrefixBytes>(), body.subspan(kChunkHeadBytes)) != header->checksum)
    return false;
  return parse_chunk_head(body.first<kChunkHeadBytes>(), header->body_bytes).ok();
}

std::vector<std::byte> chunk_frame(const ChunkHead& head, Bytes values) {
  std::vector<std::byte> frame(kChunkPrefixBytes + values.size());
  write_chunk_prefix(head, values, std::span(frame).first<kChunkPrefixBytes>());
  std::copy(values.begin(), values.end(), frame.begin() + kChunkPrefixBytes);
  return frame;
}

std::vector<std::byte> chunk_frame(const ChunkHead& head, const std::vector<float>& floats) {
  return chunk_frame(head, std::as_bytes(std::span(floats)));
}

ChunkHead some_head(std::uint32_t floats) {
  return {77, 4096, floats, ChunkKind::reply, Payload::f32, 0.25F, 0, 5};
}

constexpr Payload kPayloads[] = {Payload::f32, Payload::bf16, Payload::int8, Payload::top_k, Payload::none};

// The chunk length as documented in docs/PROTOCOL.md.
std::size_t bytes_of(Payload payload, std::size_t floats, std::size_t entries, bool places) {
  switch (payload) {
    case Payload::f32:
      return 4 * floats;
    case Payload::bf16:
      return 2 * floats;
    case Payload::int8: {
      std::size_t blocks = 0;
      for (std::size_t begin = 0; begin < floats; begin += 256) ++blocks;
      return floats + 4 * blocks;
    }
    case Payload::top_k:
      return (places ? 8 : 4) * entries;
    case Payload::none:
      return 0;
  }
  return 0;
}

}  // namespace

TEST_CASE("a control frame's header survives writing and parsing") {
  const std::array<std::byte, 3> body = {std::byte{1}, std::byte{2}, std::byte{3}};
  const HeaderBytes bytes = control_header(body);
  const auto header = FrameHeader::parse(bytes);
  REQUIRE(header.ok());
  CHECK(header->kind == FrameKind::control);
  CHECK(header->body_bytes == 3);
  CHECK(header->checksum == control_checksum(bytes, body));
}

TEST_CASE("a frame begins with the letters STRL and its version") {
  const HeaderBytes bytes = control_header({});
  CHECK(bytes[0] == std::byte{'S'});
  CHECK(bytes[1] == std::byte{'T'});
  CHECK(bytes[2] == std::byte{'R'});
  CHECK(bytes[3] == std::byte{'L'});
  CHECK(bytes[4] == std::byte{kProtocolVersion});
}

TEST_CASE("every valid chunk head survives writing and parsing") {
  Random r(1);
  for (int i = 0; i < 2000; ++i) {
    ChunkHead head;
    head.exchange = r.bits();
    head.floats = static_cast<std::uint32_t>(1 + r.below(600));
    head.offset = r.bits() >> 1;
    head.kind = static_cast<ChunkKind>(r.below(3));
    if (head.kind != ChunkKind::state) {
      head.payload = kPayloads[r.below(5)];
      head.weight = static_cast<float>(r.uniform());
      head.sequence = r.bits();
    }
    if (head.payload == Payload::top_k) head.entries = static_cast<std::uint32_t>(1 + r.below(head.floats));
    const std::vector<std::byte> values(bytes_of(head.payload, head.floats, head.entries, r.chance(0.5)),
                                        std::byte{7});
    const auto frame = chunk_frame(head, values);
    REQUIRE(accepted(frame));
    const auto parsed = parse_chunk_head(Bytes(frame).subspan<kFrameHeaderBytes, kChunkHeadBytes>(),
                                         static_cast<std::uint32_t>(frame.size() - kFrameHeaderBytes));
    REQUIRE(parsed.ok());
    REQUIRE(*parsed == head);
  }
}

TEST_CASE("a header with wrong magic, version, kind or reserved bytes is rejected with that reason") {
  const HeaderBytes good = control_header({});
  HeaderBytes bad = good;
  bad[0] = std::byte{'G'};
  CHECK(fault_of(bad) == FrameFault::bad_magic);
  bad = good;
  bad[4] = std::byte{kProtocolVersion + 1};
  CHECK(fault_of(bad) == FrameFault::bad_version);
  CHECK(FrameHeader::parse(bad).error().message ==
        "the remote peer uses protocol version 3, and Starling " + version() + " uses version 2");
  bad = good;
  bad[5] = std::byte{3};
  CHECK(fault_of(bad) == FrameFault::malformed);
  for (const std::size_t reserved : {6, 7, 12, 13, 14, 15}) {
    bad = good;
    bad[reserved] = std::byte{1};
    CHECK(fault_of(bad) == FrameFault::malformed);
  }
}

TEST_CASE("a length beyond the limit of its kind is rejected when the header is parsed") {
  const std::pair<FrameKind, std::size_t> limits[] = {{FrameKind::control, kControlBodyBytesMax},
                                                      {FrameKind::chunk, kChunkBodyBytesMax},
                                                      {FrameKind::relayed, kRelayedBodyBytesMax}};
  for (const auto& [kind, most] : limits) {
    HeaderBytes header = control_header({});
    header[5] = static_cast<std::byte>(kind);
    store(header.data() + 8, static_cast<std::uint32_t>(most));
    CHECK(FrameHeader::parse(header).ok());
    store(header.data() + 8, static_cast<std::uint32_t>(most + 1));
    CHECK(fault_of(header) == FrameFault::oversize);
    store(header.data() + 8, std::numeric_limits<std::uint32_t>::max());
    CHECK(fault_of(header) == FrameFault::oversize);
  }
}

TEST_CASE("a relayed frame has a checksum of its bytes, or none, and is never empty") {
  const std::array<std::byte, 5> body = {std::byte{9}, std::byte{8}, std::byte{7}, std::byte{6},
                                         std::byte{5}};
  HeaderBytes header;
  write_relayed_header(body, header);
  auto parsed = FrameHeader::parse(header);
  REQUIRE(parsed.ok());
  CHECK(parsed->kind == FrameKind::relayed);
  CHECK(parsed->body_bytes == 5);
  CHECK(parsed->checksum == control_checksum(header, body));
  write_relayed_header(body, header, Checksum::none);
  parsed = FrameHeader::parse(header);
  REQUIRE(parsed.ok());
  CHECK(parsed->checksum == 0);
  store(header.data() + 8, std::uint32_t{0});
  CHECK(fault_of(header) == FrameFault::malformed);
}

TEST_CASE("a chunk shorter than its head is rejected") {
  HeaderBytes header = control_header({});
  header[5] = static_cast<std::byte>(FrameKind::chunk);
  store(header.data() + 8, static_cast<std::uint32_t>(kChunkHeadBytes - 1));
  CHECK(fault_of(header) == FrameFault::malformed);
}

TEST_CASE("an invalid chunk head is rejected") {
  std::array<std::byte, kChunkPrefixBytes> prefix;
  const std::vector<float> floats(8, 2.0F);
  const std::uint32_t body_bytes = kChunkHeadBytes + 32;
  const auto chunk_head = std::span(prefix).subspan<kFrameHeaderBytes, kChunkHeadBytes>();
  write_chunk_prefix(some_head(8), std::as_bytes(std::span(floats)), prefix);
  const auto good = prefix;
  REQUIRE(parse_chunk_head(chunk_head, body_bytes).ok());
  // Sets one field at its offset in docs/PROTOCOL.md.
  const auto refused = [&](std::size_t place, auto value) {
    prefix = good;
    store(prefix.data() + kFrameHeaderBytes + place, value);
    return !parse_chunk_head(chunk_head, body_bytes).ok();
  };

  for (const float weight : {-0.25F, -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    CHECK(refused(24, weight));
  CHECK_FALSE(refused(24, 3.0F));  // validated by the rule, not here
  CHECK(refused(20, std::uint8_t{3}));
  CHECK(refused(20, std::uint8_t{2}));  // a state chunk with a weight and a sequence
  CHECK(refused(21, std::uint8_t{5}));
  for (std::uint8_t payload = 1; payload < 5; ++payload)
    CHECK(refused(21, payload));  // other payloads have other lengths
  CHECK(refused(22, std::uint16_t{1}));
  CHECK(refused(22, std::uint16_t{0x100}));
  CHECK(refused(28, std::uint32_t{1}));  // entries without top_k
  CHECK(refused(8, std::numeric_limits<std::uint64_t>::max() - 7));
  CHECK_FALSE(refused(8, std::numeric_limits<std::uint64_t>::max() - 8));
  CHECK(refused(16, std::uint32_t{0}));
  // A number of floats whose byte count overflows 32 bits to a plausible value.
  CHECK(refused(16, std::uint32_t{0x40000008}));
  prefix = good;
  CHECK_FALSE(parse_chunk_head(chunk_head, body_bytes - 4).ok());
  CHECK_FALSE(parse_chunk_head(chunk_head, body_bytes + 1).ok());
  CHECK_FALSE(parse_chunk_head(chunk_head, kChunkHeadBytes).ok());
  CHECK_FALSE(parse_chunk_head(chunk_head, 0).ok());
}

TEST_CASE("a payload's length must match its floats and entries") {
  ChunkHead head = some_head(0);
  for (const std::uint32_t floats : {1U, 255U, 256U, 257U, 8192U, kChunkFloatsMax}) {
    for (const Payload payload : kPayloads) {
      head.floats = floats;
      head.payload = payload;
      head.entries = payload == Payload::top_k ? (floats + 99) / 100 : 0;
      const std::size_t with = bytes_of(payload, floats, head.entries, true);
      const std::size_t without = bytes_of(payload, floats, head.entries, false);
      for (const std::size_t bytes : {with, without}) {
        CHECK(payload_fits(head, bytes));
        CHECK_FALSE(payload_fits(head, bytes + 1));
        CHECK_FALSE(payload_fits(head, bytes - 1));
      }
      head.entries = payload == Payload::top_k ? 0 : 1;
      CHECK_FALSE(payload_fits(head, bytes_of(payload, floats, head.entries, true)));
      head.entries = floats + 1;
      CHECK_FALSE(payload_fits(head, bytes_of(payload, floats, head.entries, true)));
    }
  }
}

TEST_CASE("a frame with any single byte changed is rejected") {
  Random r(2);
  std::vector<std::vector<std::byte>> frames;
  for (std::size_t i = 0; i < std::variant_size_v<Message>; ++i) {
    frames.push_back(encode_frame(testing::random_message(r, i)).value());
  }
  frames.push_back(chunk_frame(some_head(50), std::vector<float>(50, 0.5F)));
  std::size_t cases = 0;
  for (auto& frame : frames) {
    REQUIRE(accepted(frame));
    for (std::byte& b : frame) {
      const std::byte good = b;
      for (const unsigned flip : {0x01U, 0x80U, 0xffU, static_cast<unsigned>(1 + r.below(255))}) {
        b = good ^ static_cast<std::byte>(flip);
        ++cases;
        REQUIRE_FALSE(accepted(frame));
      }
      b = good;
    }
  }
  CHECK(cases > 10'000);
}

TEST_CASE("a truncated frame is rejected") {
  Random r(3);
  for (int i = 0; i < 3000; ++i) {
    const auto frame = encode_frame(testing::random_message(r)).value();
    REQUIRE_FALSE(accepted(Bytes(frame).first(r.below(frame.size()))));
  }
}

TEST_CASE("random bytes are rejected as a frame") {
  Random r(4);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(r.below(200));
    for (std::byte& b : bytes) b = static_cast<std::byte>(r.below(256));
    REQUIRE_FALSE(accepted(bytes));
  }
}

}  // namespace starling::wire
