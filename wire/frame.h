// A connection carries a sequence of frames in each direction. A frame is a fixed header of 24 bytes and a
// body: a control message (a FlatBuffer; wire/codec.h), a chunk (a fixed head of 40 bytes and its encoded
// values), or bytes of a connection inside this one (transport/dial/circuit.h). Input is not trusted: a
// header is checked before anything is allocated or read for its body, and each rejection has a message and a
// reason that can be counted. docs/PROTOCOL.md shows the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/messages.h"

namespace starling::wire {

inline constexpr std::uint8_t kProtocolVersion = 2;
inline constexpr std::size_t kFrameHeaderBytes = 24;
inline constexpr std::size_t kChunkHeadBytes = 40;
// The frame header and the chunk head: in a 64-byte-aligned buffer, the floats after them are aligned, too.
inline constexpr std::size_t kChunkPrefixBytes = kFrameHeaderBytes + kChunkHeadBytes;
static_assert(kChunkPrefixBytes == 64);

inline constexpr std::size_t kControlBodyBytesMax = std::size_t{1} << 20;
inline constexpr std::uint32_t kChunkFloatsMax = std::uint32_t{1} << 18;
inline constexpr std::size_t kChunkBodyBytesMax = kChunkHeadBytes + sizeof(float) * kChunkFloatsMax;
inline constexpr std::size_t kRelayedBodyBytesMax = std::size_t{1} << 16;

enum class FrameKind : std::uint8_t {
  control,
  chunk,
  relayed,  // only on an open circuit: 1 to kRelayedBodyBytesMax bytes of the connection inside it
};

// Why a frame is rejected.
// What the remote speaks instead of Starling's protocol, as far as the first bytes of a connection tell.
std::string_view foreign_protocol(Bytes first);
inline constexpr std::string_view kAnswersInHttp = "it answers in HTTP";

enum class FrameFault : std::uint8_t { bad_magic, bad_version, oversize, malformed, bad_checksum };
std::string_view name(FrameFault fault);

struct FrameError : Error {
  FrameFault fault = FrameFault::malformed;
};
template <class T>
using FrameResult = Result<T, FrameError>;

struct FrameHeader {
  FrameKind kind = FrameKind::control;
  std::uint32_t body_bytes = 0;
  std::uint64_t checksum = 0;

  // Checks everything but the checksum, which needs the body.
  static FrameResult<FrameHeader> parse(std::span<const std::byte, kFrameHeaderBytes> bytes);
};

// The checksum chains XXH3-64 through its seed: hash(body, hash(header's first 16 bytes)) for a control or a
// relayed frame, and hash(values, hash(chunk head, hash(header's first 16 bytes))) for a chunk, so a chunk is
// hashed without a copy. `frame_start` has at least the first 16 bytes of the header.
std::uint64_t control_checksum(Bytes frame_start, Bytes body);
// `prefix` is the frame header and the chunk head.
std::uint64_t chunk_checksum(std::span<const std::byte, kChunkPrefixBytes> prefix, Bytes values);

// Writes the header of a control frame in front of its body.
// REQUIRES: body.size() <= kControlBodyBytesMax.
void write_control_header(Bytes body, std::span<std::byte, kFrameHeaderBytes> header);

// Whether a frame has a checksum, or 0 in its place, as on connections with TLS.
enum class Checksum : std::uint8_t { computed, none };

// Writes the header of a relayed frame in front of its body.
// REQUIRES: 0 < body.size() <= kRelayedBodyBytesMax.
void write_relayed_header(Bytes body, std::span<std::byte, kFrameHeaderBytes> header,
                          Checksum checksum = Checksum::computed);

// Writes the frame header and the chunk head, with the checksum over the values, which it does not copy.
// REQUIRES: payload_fits(head, values.size()), 0 < head.floats <= kChunkFloatsMax.
void write_chunk_prefix(const ChunkHead& head, Bytes values, std::span<std::byte, kChunkPrefixBytes> prefix,
                        Checksum checksum = Checksum::computed);

// Whether the values of this chunk can have this size (top_k has two sizes: with places and without).
bool payload_fits(const ChunkHead& head, std::size_t bytes);

// Parses a chunk's head; `body_bytes` is from the frame's header. An error for a head that no peer of this
// version sends: a length that disagrees with payload, floats and entries, an unknown kind or payload, an
// offset that overflows, no floats, a weight that is negative or not finite, a state chunk that is not plain
// float32, reserved bytes that are not zero. The rule checks the weight and the sequence of an exchange.
FrameResult<ChunkHead> parse_chunk_head(std::span<const std::byte, kChunkHeadBytes> bytes,
                                        std::uint32_t body_bytes);

}  // namespace starling::wire
