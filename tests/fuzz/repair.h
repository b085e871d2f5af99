// Recomputes the checksums of a fuzzer's bytes: it would almost never find a valid one, and the code behind
// the checksum would stay untested.
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"
#include "wire/frame.h"

namespace starling::fuzz {

// Walks frame by frame as far as the lengths are valid.
inline void repair(std::vector<std::byte>& bytes) {
  constexpr std::size_t kChecksumAt = 16;
  for (std::size_t at = 0; bytes.size() - at >= wire::kFrameHeaderBytes;) {
    const MutableBytes rest = MutableBytes(bytes).subspan(at);
    const auto header = wire::FrameHeader::parse(rest.first<wire::kFrameHeaderBytes>());
    if (!header || rest.size() - wire::kFrameHeaderBytes < header->body_bytes) return;
    const Bytes body = rest.subspan(wire::kFrameHeaderBytes, header->body_bytes);
    const std::uint64_t checksum =
        header->kind == wire::FrameKind::chunk
            ? wire::chunk_checksum(rest.first<wire::kChunkPrefixBytes>(), body.subspan(wire::kChunkHeadBytes))
            : wire::control_checksum(rest, body);
    store(rest.data() + kChecksumAt, checksum);
    at += wire::kFrameHeaderBytes + header->body_bytes;
  }
}

inline std::vector<std::byte> copy(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  return {bytes.begin(), bytes.end()};
}

}  // namespace starling::fuzz
