#include "wire/frame.h"

#include <algorithm>
#include <string>

#include "base/hash.h"

namespace starling::wire {
namespace {

constexpr std::uint32_t kMagic = 0x4c525453;  // "STRL" in memory
constexpr std::size_t kHashedHeaderBytes = 16;

// Offsets within the frame header.
constexpr std::size_t kMagicAt = 0, kVersionAt = 4, kKindAt = 5, kZeroAt = 6, kBodyBytesAt = 8, kZero2At = 12,
                      kChecksumAt = 16;
// Offsets within the chunk head.
constexpr std::size_t kExchangeAt = 0, kOffsetAt = 8, kFloatsAt = 16, kChunkKindAt = 20, kPayloadAt = 21,
                      kChunkZeroAt = 22, kWeightAt = 24, kChunkZero2At = 28;

FrameError refuse(FrameFault fault, std::string sentence) {
  return {{std::move(sentence)}, fault};
}

void write_header(FrameKind kind, std::uint32_t body_bytes, std::byte* to) {
  store(to + kMagicAt, kMagic);
  store(to + kVersionAt, kProtocolVersion);
  store(to + kKindAt, kind);
  store(to + kZeroAt, std::uint16_t{0});
  store(to + kBodyBytesAt, body_bytes);
  store(to + kZero2At, std::uint32_t{0});
}

}  // namespace

std::string_view name(FrameFault fault) {
  constexpr std::string_view names[] = {"bad magic", "bad version", "oversize", "malformed", "bad checksum"};
  return names[static_cast<std::size_t>(fault)];
}

FrameResult<FrameHeader> FrameHeader::parse(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const std::byte* p = bytes.data();
  if (load<std::uint32_t>(p + kMagicAt) != kMagic) {
    return refuse(FrameFault::bad_magic, "the bytes are not a Starling frame (they do not begin with STRL)");
  }
  const auto version = load<std::uint8_t>(p + kVersionAt);
  if (version != kProtocolVersion) {
    return refuse(FrameFault::bad_version, "the remote speaks version " + std::to_string(version) +
                                               " of the protocol, this program version " +
                                               std::to_string(kProtocolVersion));
  }
  const auto kind = load<std::uint8_t>(p + kKindAt);
  if (kind > static_cast<std::uint8_t>(FrameKind::chunk)) {
    return refuse(FrameFault::malformed, "a frame of unknown kind " + std::to_string(kind));
  }
  if (load<std::uint16_t>(p + kZeroAt) != 0 || load<std::uint32_t>(p + kZero2At) != 0) {
    return refuse(FrameFault::malformed, "a frame header with reserved bytes that are not zero");
  }
  FrameHeader header;
  header.kind = static_cast<FrameKind>(kind);
  header.body_bytes = load<std::uint32_t>(p + kBodyBytesAt);
  header.checksum = load<std::uint64_t>(p + kChecksumAt);
  const std::size_t most = header.kind == FrameKind::control ? kControlBodyBytesMax : kChunkBodyBytesMax;
  if (header.body_bytes > most) {
    return refuse(FrameFault::oversize, "a frame of " + std::to_string(header.body_bytes) +
                                            " bytes, at most " + std::to_string(most) + " are allowed");
  }
  if (header.kind == FrameKind::chunk && header.body_bytes < kChunkHeadBytes) {
    return refuse(FrameFault::malformed, "a chunk of " + std::to_string(header.body_bytes) +
                                             " bytes, too short for its head of " +
                                             std::to_string(kChunkHeadBytes));
  }
  return header;
}

std::uint64_t control_checksum(Bytes frame_start, Bytes body) {
  STARLING_CHECK(frame_start.size() >= kHashedHeaderBytes);
  return hash64(body, hash64(frame_start.first(kHashedHeaderBytes)));
}

std::uint64_t chunk_checksum(std::span<const std::byte, kChunkPrefixBytes> prefix, Bytes floats) {
  const Bytes head = prefix.subspan<kFrameHeaderBytes, kChunkHeadBytes>();
  return hash64(floats, hash64(head, hash64(prefix.first<kHashedHeaderBytes>())));
}

void write_control_header(Bytes body, std::span<std::byte, kFrameHeaderBytes> header) {
  STARLING_CHECK(body.size() <= kControlBodyBytesMax);
  write_header(FrameKind::control, static_cast<std::uint32_t>(body.size()), header.data());
  store(header.data() + kChecksumAt, control_checksum(header, body));
}

void write_chunk_prefix(const ChunkHead& head, Bytes floats, std::span<std::byte, kChunkPrefixBytes> prefix) {
  STARLING_CHECK(head.floats <= kChunkFloatsMax && floats.size() == head.floats * sizeof(float));
  write_header(FrameKind::chunk, static_cast<std::uint32_t>(kChunkHeadBytes + floats.size()), prefix.data());
  std::byte* p = prefix.data() + kFrameHeaderBytes;
  std::fill_n(p, kChunkHeadBytes, std::byte{0});
  store(p + kExchangeAt, head.exchange);
  store(p + kOffsetAt, head.offset);
  store(p + kFloatsAt, head.floats);
  store(p + kChunkKindAt, head.kind);
  store(p + kPayloadAt, head.payload);
  store(p + kWeightAt, head.weight);
  store(prefix.data() + kChecksumAt, chunk_checksum(prefix, floats));
}

FrameResult<ChunkHead> parse_chunk_head(std::span<const std::byte, kChunkHeadBytes> bytes,
                                        std::uint32_t body_bytes) {
  const std::byte* p = bytes.data();
  const auto malformed = [](std::string sentence) {
    return refuse(FrameFault::malformed, std::move(sentence));
  };

  ChunkHead head;
  head.exchange = load<std::uint64_t>(p + kExchangeAt);
  head.offset = load<std::uint64_t>(p + kOffsetAt);
  head.floats = load<std::uint32_t>(p + kFloatsAt);
  const auto kind = load<std::uint8_t>(p + kChunkKindAt);
  head.payload = load<std::uint8_t>(p + kPayloadAt);
  head.weight = load<float>(p + kWeightAt);

  if (kind > static_cast<std::uint8_t>(ChunkKind::state))
    return malformed("a chunk of unknown kind " + std::to_string(kind));
  head.kind = static_cast<ChunkKind>(kind);
  if (head.payload != 0) return malformed("a chunk of unknown payload " + std::to_string(head.payload));
  if (load<std::uint16_t>(p + kChunkZeroAt) != 0 ||
      std::any_of(p + kChunkZero2At, p + kChunkHeadBytes, [](std::byte b) { return b != std::byte{0}; })) {
    return malformed("a chunk head with reserved bytes that are not zero");
  }
  if (head.floats > kChunkFloatsMax ||
      kChunkHeadBytes + std::size_t{head.floats} * sizeof(float) != body_bytes) {
    return malformed("a chunk of " + std::to_string(head.floats) + " floats in a body of " +
                     std::to_string(body_bytes) + " bytes");
  }
  if (head.offset > UINT64_MAX - head.floats) return malformed("a chunk whose end lies beyond 2^64 floats");
  const bool reply = head.kind == ChunkKind::reply;
  const bool weight_known = head.weight == 0.0F || (reply && (head.weight == 0.25F || head.weight == 0.5F));
  if (!weight_known) return malformed("a chunk of weight " + std::to_string(head.weight));
  if (head.floats == 0 && !(reply && head.weight == 0.0F)) return malformed("a chunk without floats");
  return head;
}

}  // namespace starling::wire
