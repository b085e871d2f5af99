// Packing by an arena on a GPU, compared with the host's encoder, and exchanges that use it. Skipped with a
// warning if there is no GPU, not even the emulated one.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/kernels/gpu.h"
#include "tests/seeds.h"
#include "tests/training/mixers.h"
#include "tests/training/near.h"
#include "training/mixing/payload.h"
#include "training/mixing/values.h"

namespace starling::training {
namespace {

using kernels::Packing;
using models::Arena;

constexpr std::pair<Packing, Payload> kPackings[] = {{Packing::bf16, Payload::bf16},
                                                     {Packing::int8, Payload::int8}};

// A GPU's arena works in blocks of this many floats.
constexpr std::size_t kPiece = 32 * 1024;

// Any finite float, or one near a halfway case of bf16.
float any_float(Random& random) {
  const auto bits = static_cast<std::uint32_t>(random.below(std::uint64_t{1} << 32));
  const float value =
      std::bit_cast<float>(random.below(4) == 0 ? (bits & 0xffff0000) + 0x7fff + bits % 3 : bits);
  return std::isfinite(value) ? value : 0;
}

// Runs of some hundreds of floats, each run of a different kind.
std::vector<float> all_kinds(Random& random, std::size_t n) {
  std::vector<float> values;
  while (values.size() < n) {
    const auto kind = random.below(7);
    const double scale = std::ldexp(1.0, static_cast<int>(random.below(40)) - 30);
    const float largest = any_float(random);
    for (std::uint64_t i = 100 + random.below(500); i > 0 && values.size() < n; --i) {
      switch (kind) {
        case 0:
          values.push_back(any_float(random));
          break;
        case 1:
          values.push_back(random.below(2) == 0 ? 0.0F : -0.0F);
          break;
        case 2:  // below the smallest normal number, and just around it
          values.push_back(std::numeric_limits<float>::denorm_min() *
                           static_cast<float>(random.below(1 << 23)));
          break;
        case 3:
          values.push_back(std::numeric_limits<float>::min() *
                           static_cast<float>(126.9 + 0.2 * random.uniform(0, 1)));
          break;
        case 4:
          values.push_back(static_cast<float>(random.below(255)) - 127);
          break;  // whole steps
        case 5:
          values.push_back(largest * static_cast<float>(random.uniform(-1, 1)));
          break;
        default:
          values.push_back(static_cast<float>(scale * random.normal()));
      }
    }
  }
  return values;
}

}  // namespace

TEST_CASE("a GPU packs its arena exactly as the host encodes it", "[gpu]") {
  const auto backend = kernels::gpu_backend();
  if (!backend) return;
  Random random(1);
  std::vector<std::size_t> sizes{0,   1,    31,         32,     255,        256,
                                 257, 2049, kPiece - 1, kPiece, kPiece + 1, 3 * kPiece + 77};
  if (kSanitized) sizes = {0, 31, 257, kPiece + 1};
  for (std::uint64_t i = 0; i < seeds(10); ++i) sizes.push_back(random.below(2 * kPiece));
  std::vector<std::size_t> offsets{0, 1, 256, 3 + random.below(600)};
  if (kSanitized) offsets = {0, 1};
  for (const std::size_t n : sizes) {
    for (const std::size_t offset : offsets) {
      INFO(n << " floats from " << offset);
      const std::vector<float> values = all_kinds(random, offset + n + 5);
      Arena arena(values.size(), *backend);
      arena.write(0, values);
      const auto range = std::span(values).subspan(offset, n);
      float largest = 0;
      for (const float value : range) largest = std::max(largest, std::abs(value));
      for (const auto& [packing, payload] : kPackings) {
        const std::uint64_t seed = random.below(std::uint64_t{1} << 63);
        Room expected(encoded_bytes(payload, n)), actual(encoded_bytes(payload, n));
        encode(payload, range, seed, expected.bytes());
        REQUIRE(arena.read_packed(offset, n, packing, seed, actual.bytes()) == largest);
        REQUIRE(std::ranges::equal(actual.bytes(), expected.bytes()));
      }
    }
  }
}

TEST_CASE("a GPU finds the largest magnitude of the packed values, even if not finite", "[gpu]") {
  const auto backend = kernels::gpu_backend();
  if (!backend) return;
  constexpr std::size_t kFloats = 2 * kPiece + 300;
  std::vector<float> values(kFloats, 0.5F);
  Arena arena(kFloats, *backend);
  for (const auto& [packing, payload] : kPackings) {
    Room room(encoded_bytes(payload, kFloats));
    for (const std::size_t place : {std::size_t{0}, std::size_t{255}, kPiece + 4'000, kFloats - 1}) {
      if (kSanitized && place < kPiece) continue;
      for (const float value :
           {-3.0F, 0x1p60F, -0x1p61F, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
        values[place] = value;
        arena.write(0, values);
        const auto largest = arena.read_packed(0, kFloats, packing, 1, room.bytes());
        REQUIRE(largest.has_value());
        CHECK((std::isnan(value) ? std::isnan(*largest) : *largest == std::abs(value)));
      }
      values[place] = 0.5F;
    }
  }
}

TEST_CASE("an arena on the host does not pack: the reader does") {
  Arena arena(300);
  Room room(encoded_bytes(Payload::bf16, 300));
  CHECK_FALSE(arena.read_packed(0, 300, Packing::bf16, 1, room.bytes()).has_value());
}

TEST_CASE("an exchange with a GPU sends the same bytes and gives the same replicas as the host", "[gpu]") {
  const auto backend = kernels::gpu_backend();
  if (!backend) return;
  Random random(2);
  const std::size_t floats = 5 * 8160 + 1234;
  const std::vector<float> first = random_values(random, floats), second = random_values(random, floats);
  const Session session = session_of(1, 10, 20);
  for (const Rule rule : {Rule::pairwise, Rule::clipped}) {
    for (const Payload payload : {Payload::f32, Payload::bf16, Payload::int8}) {
      INFO(traits(rule).name << ", payload " << static_cast<int>(payload));
      MixOptions options;
      options.rule = rule;
      options.payload = payload;
      options.seed = 99;
      Party host_initiator(first, options), host_responder(second, options);
      Party gpu_initiator(first, options, *backend), gpu_responder(second, options, *backend);
      for (const Cells cells : chunks(host_initiator.mixer->grid(), 4)) {
        const auto offer = host_initiator.lend(session, cells),
                   gpu_offer = gpu_initiator.lend(session, cells);
        REQUIRE(offer.ok());
        REQUIRE(gpu_offer.ok());
        CHECK(std::ranges::equal(gpu_offer->parcel.values, offer->parcel.values));
        // While these cells are lent, other peers get the free half, which the host computes.
        const auto half = host_initiator.answer(session_of(2, 20, 10), offer->parcel),
                   gpu_half = gpu_initiator.answer(session_of(2, 20, 10), offer->parcel);
        REQUIRE(half.ok());
        REQUIRE(gpu_half.ok());
        CHECK(std::ranges::equal(gpu_half->parcel.values, half->parcel.values));
        const auto reply = host_responder.answer(seen_by_responder(session), offer->parcel),
                   gpu_reply = gpu_responder.answer(seen_by_responder(session), gpu_offer->parcel);
        REQUIRE(reply.ok());
        REQUIRE(gpu_reply.ok());
        CHECK(std::ranges::equal(gpu_reply->parcel.values, reply->parcel.values));
        REQUIRE(host_initiator.mixer->complete(session, offer->parcel, reply->parcel).ok());
        REQUIRE(gpu_initiator.mixer->complete(session, gpu_offer->parcel, gpu_reply->parcel).ok());
      }
      for (const auto& [gpu, host] :
           {std::pair(&gpu_initiator, &host_initiator), {&gpu_responder, &host_responder}}) {
        const auto actual = contents(gpu->arena), expected = contents(host->arena);
        float most = 0;  // the host may round a mix once and a device twice
        for (std::size_t i = 0; i < floats; ++i) most = std::max(most, std::abs(actual[i] - expected[i]));
        CHECK(most < 1e-6F);
      }
    }
  }
}

TEST_CASE("a GPU's invalid values are not sent in any payload", "[gpu]") {
  const auto backend = kernels::gpu_backend();
  if (!backend) return;
  for (const Payload payload : {Payload::f32, Payload::bf16, Payload::int8}) {
    MixOptions options;
    options.payload = payload;
    for (const float bad : {2 * kLargestMagnitude, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> values(9000, 0.5F);
      values[8999] = bad;
      Party party(values, options, *backend);
      CHECK(party.lend(session_of(1, 10, 20), {0, 1}).ok());
      const auto refused = party.lend(session_of(1, 10, 20), {1, 1});
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().fault == MixFault::own_replica);
    }
  }
}

}  // namespace starling::training
