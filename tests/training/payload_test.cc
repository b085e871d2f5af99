#include "training/mixing/payload.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/training/mixers.h"
#include "tests/training/near.h"

namespace starling::training {
namespace {

std::vector<float> round_trip(Payload payload, std::span<const float> values, std::uint64_t seed = 1) {
  Room room(encoded_bytes(payload, values.size()));
  encode(payload, values, seed, room.bytes());
  std::vector<float> out(values.size());
  decode(payload, room.bytes(), values.size(), 0, out);
  return out;
}

// The nearest value of eight significant bits, ties to even.
double nearest_bf16(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
}

}  // namespace

TEST_CASE("payload lengths are those of the protocol") {
  REQUIRE(encoded_bytes(Payload::f32, 1000) == 4000);
  REQUIRE(encoded_bytes(Payload::bf16, 1000) == 2000);
  REQUIRE(encoded_bytes(Payload::int8, 256) == 256 + 4);
  REQUIRE(encoded_bytes(Payload::int8, 257) == 257 + 8);
  REQUIRE(encoded_bytes(Payload::int8, 1000) == 1000 + 16);
}

TEST_CASE("f32 is sent bit by bit") {
  Random random(1);
  const auto values = random_values(random, 1000);
  REQUIRE(round_trip(Payload::f32, values) == values);
}

TEST_CASE("bf16 is the nearest value of eight bits, ties to even") {
  Random random(2);
  std::vector<float> values;
  for (int i = 0; i < 20000; ++i) {
    values.push_back(
        static_cast<float>(std::ldexp(random.uniform(-1, 1), static_cast<int>(random.below(80)) - 40)));
  }
  for (std::uint32_t high = 0x3f80; high < 0x3f84; ++high) {  // exact, ties, beside ties
    for (const std::uint32_t low : {0x0000U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  const auto out = round_trip(Payload::bf16, values);
  for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(wide(out[i]) == nearest_bf16(wide(values[i])));
  REQUIRE(round_trip(Payload::bf16, out) == out);
}

TEST_CASE("int8 stays within a step, is exact for zeros and extremes, and has no bias") {
  Random random(3);
  constexpr std::size_t kFloats = 700;  // two blocks and a part
  auto values = random_values(random, kFloats);
  for (std::size_t i = 256; i < 512; ++i) values[i] *= 1e-6f;  // each block has its own scale
  for (std::size_t i = 512; i < 560; ++i) values[i] = 0;
  std::vector<double> sums(kFloats, 0.0);
  constexpr int kTimes = 4000;
  std::vector<double> step(kFloats);
  for (std::size_t i = 0; i < kFloats; ++i) {
    const std::size_t begin = i / 256 * 256, end = std::min(kFloats, begin + 256);
    double largest = 0;
    for (std::size_t j = begin; j < end; ++j) largest = std::max(largest, std::abs(wide(values[j])));
    step[i] = largest / 127;
  }
  for (int seed = 0; seed < kTimes; ++seed) {
    const auto out = round_trip(Payload::int8, values, static_cast<std::uint64_t>(seed) * 0x9e3779b97f4a7c15);
    for (std::size_t i = 0; i < kFloats; ++i) {
      sums[i] += wide(out[i]);
      if (std::abs(wide(out[i]) - wide(values[i])) > step[i] * (1 + 1e-4))
        FAIL("off by more than a step at " << i);
      if (values[i] == 0 && out[i] != 0) FAIL("a zero has changed");
      if (std::abs(wide(values[i])) == 127 * step[i] && !near(wide(out[i]), wide(values[i]), 0, 1e-6)) {
        FAIL("the largest of a block has changed");
      }
    }
  }
  for (std::size_t i = 0; i < kFloats; ++i) {  // a step's deviation is at most 1/2; five sigmas
    REQUIRE(near(sums[i] / kTimes, wide(values[i]), 5 * 0.5 * step[i] / std::sqrt(kTimes)));
  }
  const std::vector<float> zeros(300, 0.0f);
  REQUIRE(round_trip(Payload::int8, zeros) == zeros);
  std::vector<float> whole(256);
  for (std::size_t i = 0; i < 256; ++i) whole[i] = static_cast<float>(static_cast<int>(i % 255) - 127);
  REQUIRE(round_trip(Payload::int8, whole, 99) == whole);  // representable values are exact
  const std::vector<float> tiny(256, std::numeric_limits<float>::denorm_min());
  REQUIRE(round_trip(Payload::int8, tiny) == std::vector<float>(256, 0.0f));
}

TEST_CASE("random rounding depends only on the seed") {
  Random random(4);
  const auto values = random_values(random, 512);
  REQUIRE(round_trip(Payload::int8, values, 5) == round_trip(Payload::int8, values, 5));
  REQUIRE(round_trip(Payload::int8, values, 5) != round_trip(Payload::int8, values, 6));
}

TEST_CASE("any part of a chunk decodes to the same values as in the whole") {
  Random random(5);
  const auto values = random_values(random, 1000);
  for (const Payload payload : {Payload::f32, Payload::bf16, Payload::int8}) {
    Room room(encoded_bytes(payload, values.size()));
    encode(payload, values, 7, room.bytes());
    std::vector<float> whole(values.size());
    decode(payload, room.bytes(), values.size(), 0, whole);
    for (int i = 0; i < 200; ++i) {
      const std::size_t begin = random.below(values.size() + 1), n = random.below(values.size() - begin + 1);
      std::vector<float> part(n);
      decode(payload, room.bytes(), values.size(), begin, part);
      REQUIRE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)));
    }
  }
}

}  // namespace starling::training
