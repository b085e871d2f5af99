#include "wire/frame.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/hash.h"
#include "base/program.h"

namespace starling::wire {
namespace {

constexpr std::uint32_t kMagic = 0x4c525453;  // "STRL" in memory
constexpr std::size_t kHashedHeaderBytes = 16;

// Offsets within the frame header.
constexpr std::size_t kMagicAt = 0, kVersionAt = 4, kKindAt = 5, kZeroAt = 6, kBodyBytesAt = 8, kZero2At = 12,
                      kChecksumAt = 16;
// Offsets within the chunk head.
constexpr std::size_t kExchangeAt = 0, kOffsetAt = 8, kFloatsAt = 16, kChunkKindAt = 20, kPayloadAt = 21,
                      kChunkZeroAt = 22, kWeightAt = 24, kEntriesAt = 28, kSequenceAt = 32;

struct ForeignProtocol {
  std::string_view begins, sentence;
};
constexpr std::array<ForeignProtocol, 5> kForeign = {{
    {"HTTP", kAnswersInHttp},
    {"GET ", "it sent an HTTP request; a peer's page is at its --http address"},
    {"POST", "it sent an HTTP request; a peer's page is at its --http address"},
    {"HEAD", "it sent an HTTP request; a peer's page is at its --http address"},
    {"SSH-", "it speaks SSH"},
}};

FrameError refuse(FrameFault fault, std::string sentence) { return {{std::move(sentence)}, fault}; }

void write_header(FrameKind kind, std::uint32_t body_bytes, std::byte* to) {
  store(to + kMagicAt, kMagic);
  store(to + kVersionAt, kProtocolVersion);
  store(to + kKindAt, kind);
  store(to + kZeroAt, std::uint16_t{0});
  store(to + kBodyBytesAt, body_bytes);
  store(to + kZero2At, std::uint32_t{0});
}

std::size_t most_body_bytes(FrameKind kind) {
  switch (kind) {
    case FrameKind::control:
      return kControlBodyBytesMax;
    case FrameKind::chunk:
      return kChunkBodyBytesMax;
    case FrameKind::relayed:
      return kRelayedBodyBytesMax;
  }
  return 0;
}

}  // namespace

std::string_view name(FrameFault fault) {
  constexpr std::string_view names[] = {"bad magic", "bad version", "oversize", "malformed", "bad checksum"};
  return names[static_cast<std::size_t>(fault)];
}

std::string_view foreign_protocol(Bytes first) {
  for (const ForeignProtocol& foreign : kForeign) {
    const Bytes begins = std::as_bytes(std::span(foreign.begins));
    if (first.size() >= begins.size() && std::equal(begins.begin(), begins.end(), first.begin()))
      return foreign.sentence;
  }
  return "it does not speak Starling's protocol";
}

FrameResult<FrameHeader> FrameHeader::parse(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const std::byte* p = bytes.data();
  if (load<std::uint32_t>(p + kMagicAt) != kMagic) {
    return refuse(FrameFault::bad_magic, std::string(foreign_protocol(bytes)));
  }
  const auto version = load<std::uint8_t>(p + kVersionAt);
  if (version != kProtocolVersion) {
    return refuse(FrameFault::bad_version,
                  "the remote peer uses protocol version " + std::to_string(version) + ", and Starling " +
                      starling::version() + " uses version " + std::to_string(kProtocolVersion));
  }
  const auto kind = load<std::uint8_t>(p + kKindAt);
  if (kind > static_cast<std::uint8_t>(FrameKind::relayed)) {
    return refuse(FrameFault::malformed, "unknown frame kind " + std::to_string(kind));
  }
  if (load<std::uint16_t>(p + kZeroAt) != 0 || load<std::uint32_t>(p + kZero2At) != 0) {
    return refuse(FrameFault::malformed, "reserved bytes of the frame header are not zero");
  }
  FrameHeader header;
  header.kind = static_cast<FrameKind>(kind);
  header.body_bytes = load<std::uint32_t>(p + kBodyBytesAt);
  header.checksum = load<std::uint64_t>(p + kChecksumAt);
  const std::size_t most = most_body_bytes(header.kind);
  if (header.body_bytes > most) {
    return refuse(FrameFault::oversize, "frame of " + std::to_string(header.body_bytes) +
                                            " bytes exceeds the limit of " + std::to_string(most) + " bytes");
  }
  if (header.kind == FrameKind::chunk && header.body_bytes < kChunkHeadBytes) {
    return refuse(FrameFault::malformed, "chunk of " + std::to_string(header.body_bytes) +
                                             " bytes is shorter than its head of " +
                                             std::to_string(kChunkHeadBytes) + " bytes");
  }
  if (header.kind == FrameKind::relayed && header.body_bytes == 0)
    return refuse(FrameFault::malformed, "a relayed frame is empty");
  return header;
}

std::uint64_t control_checksum(Bytes frame_start, Bytes body) {
  STARLING_CHECK(frame_start.size() >= kHashedHeaderBytes);
  return hash64(body, hash64(frame_start.first(kHashedHeaderBytes)));
}

std::uint64_t chunk_checksum(std::span<const std::byte, kChunkPrefixBytes> prefix, Bytes values) {
  const Bytes head = prefix.subspan<kFrameHeaderBytes, kChunkHeadBytes>();
  return hash64(values, hash64(head, hash64(prefix.first<kHashedHeaderBytes>())));
}

void write_control_header(Bytes body, std::span<std::byte, kFrameHeaderBytes> header) {
  STARLING_CHECK(body.size() <= kControlBodyBytesMax);
  write_header(FrameKind::control, static_cast<std::uint32_t>(body.size()), header.data());
  store(header.data() + kChecksumAt, control_checksum(header, body));
}

void write_relayed_header(Bytes body, std::span<std::byte, kFrameHeaderBytes> header, Checksum checksum) {
  STARLING_CHECK(!body.empty() && body.size() <= kRelayedBodyBytesMax);
  write_header(FrameKind::relayed, static_cast<std::uint32_t>(body.size()), header.data());
  const std::uint64_t sum = checksum == Checksum::computed ? control_checksum(header, body) : 0;
  store(header.data() + kChecksumAt, sum);
}

bool payload_fits(const ChunkHead& head, std::size_t bytes) {
  const std::size_t floats = head.floats, entries = head.entries;
  if (head.payload != Payload::top_k && entries != 0) return false;
  switch (head.payload) {
    case Payload::f32:
      return bytes == floats * sizeof(float);
    case Payload::bf16:
      return bytes == floats * sizeof(std::uint16_t);
    case Payload::int8:
      return bytes == floats + sizeof(float) * ((floats + kInt8BlockFloats - 1) / kInt8BlockFloats);
    case Payload::top_k: {
      const std::size_t values = entries * sizeof(float);
      const bool with_places = bytes == values + entries * sizeof(std::uint32_t);
      return entries > 0 && entries <= floats && (with_places || bytes == values);
    }
    case Payload::none:
      return bytes == 0;
  }
  return false;
}

void write_chunk_prefix(const ChunkHead& head, Bytes values, std::span<std::byte, kChunkPrefixBytes> prefix,
                        Checksum checksum) {
  STARLING_CHECK(head.floats > 0 && head.floats <= kChunkFloatsMax && payload_fits(head, values.size()));
  write_header(FrameKind::chunk, static_cast<std::uint32_t>(kChunkHeadBytes + values.size()), prefix.data());
  std::byte* p = prefix.data() + kFrameHeaderBytes;
  store(p + kExchangeAt, head.exchange);
  store(p + kOffsetAt, head.offset);
  store(p + kFloatsAt, head.floats);
  store(p + kChunkKindAt, head.kind);
  store(p + kPayloadAt, head.payload);
  store(p + kChunkZeroAt, std::uint16_t{0});
  store(p + kWeightAt, head.weight);
  store(p + kEntriesAt, head.entries);
  store(p + kSequenceAt, head.sequence);
  const std::uint64_t sum = checksum == Checksum::computed ? chunk_checksum(prefix, values) : 0;
  store(prefix.data() + kChecksumAt, sum);
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
  const auto payload = load<std::uint8_t>(p + kPayloadAt);
  head.weight = load<float>(p + kWeightAt);
  head.entries = load<std::uint32_t>(p + kEntriesAt);
  head.sequence = load<std::uint64_t>(p + kSequenceAt);

  if (kind > static_cast<std::uint8_t>(ChunkKind::state))
    return malformed("unknown chunk kind " + std::to_string(kind));
  head.kind = static_cast<ChunkKind>(kind);
  if (payload > static_cast<std::uint8_t>(Payload::none))
    return malformed("unknown chunk payload " + std::to_string(payload));
  head.payload = static_cast<Payload>(payload);
  if (load<std::uint16_t>(p + kChunkZeroAt) != 0)
    return malformed("reserved bytes of the chunk head are not zero");
  if (head.floats == 0 || head.floats > kChunkFloatsMax)
    return malformed("chunk of " + std::to_string(head.floats) + " floats; expected 1 to " +
                     std::to_string(kChunkFloatsMax));
  if (body_bytes < kChunkHeadBytes || !payload_fits(head, body_bytes - kChunkHeadBytes)) {
    return malformed("chunk of " + std::to_string(head.floats) + " floats does not match its body of " +
                     std::to_string(body_bytes) + " bytes");
  }
  if (head.offset > UINT64_MAX - head.floats) return malformed("chunk ends beyond 2^64 floats");
  if (!std::isfinite(head.weight) || head.weight < 0)
    return malformed("invalid chunk weight " + std::to_string(head.weight));
  if (head.kind == ChunkKind::state &&
      (head.payload != Payload::f32 || head.weight != 0 || head.sequence != 0)) {
    return malformed("state chunk is not plain float32");
  }
  return head;
}

}  // namespace starling::wire
