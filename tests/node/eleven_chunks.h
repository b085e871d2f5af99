// Two sets of parameters of eleven chunks (the last one is shorter), their chunks as a test's remotes send
// them, and two peers with these parameters.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/node/test_peer.h"
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

inline constexpr int kTries = 200;

inline bool near(const std::vector<float>& x, const std::vector<float>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::abs(x[i] - y[i]) > 1e-6f) return false;
  }
  return x.size() == y.size();
}

// Two peers with different parameters.
struct TwoPeers {
  explicit TwoPeers(Kind kind, ExchangerOptions options = steady())
      : world(kind), a(world, 1, options), b(world, 2, options) {
    a.attach(kA, kChunk);
    b.attach(kB, kChunk);
  }
  World world;
  TestPeer a, b;
};

// `peer` exchanges with a newcomer in both directions: it is unharmed, and none of its chunks is lent. A peer
// with a short stall limit may need several tries on a busy machine.
inline void require_well(World& world, TestPeer& peer, int tries = 1) {
  TestPeer other(world, 99);
  other.attach(random_floats(kFloats, 9), kChunk);
  const auto overlapped = peer.mixer->counters().overlapped;
  const auto completes = [&](TestPeer& from, TestPeer& to) {
    for (int i = 0; i < tries; ++i) {
      if (exchange(world, from, to) == gossip::Outcome::completed) return true;
    }
    return false;
  };
  REQUIRE(completes(other, peer));
  REQUIRE(near(peer.values(), other.values()));
  REQUIRE(peer.mixer->counters().overlapped == overlapped);
  other.arena->write(0, kA);
  REQUIRE(completes(peer, other));
  REQUIRE(near(peer.values(), other.values()));
}

}  // namespace starling::node::testing
