// Two sets of parameters of eleven chunks, the last one shorter, and their chunks as hand-made remotes send them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/node/flock.h"
#include "wire/frame.h"

namespace starling::node::testing {

inline constexpr std::size_t kChunk = 100, kChunks = 11, kFloats = kChunk * (kChunks - 1) + 50;
inline const std::vector<float> kA = random_floats(kFloats, 1), kB = random_floats(kFloats, 2);

inline std::vector<float> chunk_of(const std::vector<float>& values, std::size_t chunk) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(chunk * kChunk);
  return {begin, begin + static_cast<std::ptrdiff_t>(std::min(kChunk, values.size() - chunk * kChunk))};
}

inline wire::ChunkHead head_of(wire::ChunkKind kind, std::size_t chunk, std::uint64_t exchange = 1,
                               float weight = 0) {
  wire::ChunkHead head;
  head.kind = kind;
  head.exchange = exchange;
  head.offset = chunk * kChunk;
  head.weight = weight;
  return head;
}

}  // namespace starling::node::testing
