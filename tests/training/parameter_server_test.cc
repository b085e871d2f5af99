// Pushes and pulls against the formula in double (docs/RULES.md).

#include "training/mixing/rules/parameter_server.h"

#include <limits>

#include "tests/training/mixers.h"
#include "tests/training/near.h"
#include "training/mixing/payload.h"

namespace starling::training {
namespace {

constexpr std::size_t kFloats = 29;
constexpr Cells kAllCells{0, 4};

MixOptions server_options(Payload payload) {
  MixOptions options;
  options.rule = Rule::parameter_server;
  options.payload = payload;
  options.cell_floats = 8;
  return options;
}

// Largest rounding error of a value near 4.
double rounding(Payload payload) {
  if (payload == Payload::bf16) return 4 * 0x1p-7;
  return payload == Payload::int8 ? 12.0 / 127 : 4e-6;
}

Session session_with(float w) { return {.exchange = 1, .initiator = 1, .partner = 2, .weight = w}; }

void push(Party& worker, Party& server, Cells cells, float w, std::span<const float> meanwhile = {}) {
  const auto sent = worker.lend(session_with(w), cells);
  REQUIRE(sent.ok());
  if (!meanwhile.empty()) worker.arena.add(0, meanwhile);
  const auto reply = server.answer(session_with(w), sent->parcel);
  REQUIRE(reply.ok());
  REQUIRE(worker.mixer->complete(session_with(w), sent->parcel, reply->parcel).ok());
}

}  // namespace

TEST_CASE("a server takes its share of a push, and the worker adds its updates to the result") {
  for (const Payload payload : {Payload::f32, Payload::bf16, Payload::int8}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      INFO("payload " << static_cast<int>(payload) << ", seed " << seed);
      Random random(seed);
      const auto first = random_values(random, kFloats), step = random_values(random, kFloats),
                 later = random_values(random, kFloats), elsewhere = random_values(random, kFloats);
      const auto w = static_cast<float>(0.1 + 0.9 * random.uniform());
      Party server(first, server_options(payload)), worker(first, server_options(payload));
      worker.arena.add(0, step);
      server.arena.add(0, elsewhere);  // pushes of other workers
      push(worker, server, kAllCells, w, later);
      const auto served = contents(server.arena), own = contents(worker.arena);
      for (std::size_t i = 0; i < kFloats; ++i) {
        const double right = wide(first[i]) + wide(elsewhere[i]) + wide(w) * wide(step[i]);
        REQUIRE(near(wide(served[i]), right, rounding(payload)));
        REQUIRE(near(wide(own[i]), right + wide(later[i]), 2 * rounding(payload)));
      }
      // Updates made meanwhile are in the next push, once.
      push(worker, server, kAllCells, 1);
      const auto after = contents(server.arena);
      for (std::size_t i = 0; i < kFloats; ++i)
        REQUIRE(near(wide(after[i]), wide(served[i]) + wide(later[i]), 2 * rounding(payload)));
    }
  }
}

TEST_CASE("rounding errors of a push are added to the next ones: no update is lost") {
  Random random(5);
  const std::vector<float> zeros(kFloats);
  Party server(zeros, server_options(Payload::int8)), worker(zeros, server_options(Payload::int8));
  std::vector<double> learned(kFloats);
  for (int k = 0; k < 300; ++k) {
    const auto step = random_values(random, kFloats);
    worker.arena.add(0, step);
    for (std::size_t i = 0; i < kFloats; ++i) learned[i] += wide(step[i]);
    push(worker, server, kAllCells, 1);
  }
  const auto served = contents(server.arena);
  // A pull's rounding is in the worker's values and returns with its next push, so it does not add up either.
  for (std::size_t i = 0; i < kFloats; ++i) REQUIRE(near(wide(served[i]), learned[i], 1.5));
}

TEST_CASE("a part of the model is pushed, and the rest is unchanged") {
  Random random(6);
  const auto first = random_values(random, kFloats), step = random_values(random, kFloats);
  Party server(first, server_options(Payload::f32)), worker(first, server_options(Payload::f32));
  worker.arena.add(0, step);
  const Cells part = worker.mixer->grid().part(1, 2);
  CHECK(part == Cells{2, 2});
  push(worker, server, part, 1);
  const auto served = contents(server.arena);
  for (std::size_t i = 0; i < kFloats; ++i)
    REQUIRE(near(wide(served[i]), wide(first[i]) + (i < 16 ? 0 : wide(step[i])), 1e-6));
}

TEST_CASE("parts of an arena cover it once") {
  for (std::size_t floats = 1; floats < 100; floats += 7) {
    const CellGrid grid{floats, 8};
    for (std::size_t of = 1; of <= grid.count(); ++of) {
      std::size_t next = 0;
      for (std::size_t k = 0; k < of; ++k) {
        const Cells part = grid.part(k, of);
        REQUIRE(part.first == next);
        REQUIRE(part.count > 0);
        next += part.count;
      }
      REQUIRE(next == grid.count());
    }
  }
}

TEST_CASE("an aborted push is part of the next push") {
  Random random(7);
  const auto first = random_values(random, kFloats), step = random_values(random, kFloats);
  Party server(first, server_options(Payload::f32)), worker(first, server_options(Payload::f32));
  worker.arena.add(0, step);
  const auto sent = worker.lend(session_with(1), kAllCells);
  worker.mixer->give_up(session_with(1), sent->parcel);
  push(worker, server, kAllCells, 1);
  const auto served = contents(server.arena);
  for (std::size_t i = 0; i < kFloats; ++i)
    REQUIRE(near(wide(served[i]), wide(first[i]) + wide(step[i]), 1e-6));
}

TEST_CASE("a parcel that is not a push, or not an answer to one, changes nothing") {
  Random random(8);
  const auto first = random_values(random, kFloats);
  Party server(first, server_options(Payload::f32)), worker(first, server_options(Payload::f32));
  auto bad = worker.lend(session_with(1), kAllCells);
  as_floats(bad->room.bytes().first(4 * kFloats))[3] = std::numeric_limits<float>::quiet_NaN();
  const auto refused = server.answer(session_with(1), bad->parcel);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().fault == MixFault::not_finite);
  CHECK(contents(server.arena) == first);

  worker.mixer->give_up(session_with(1), bad->parcel);
  const auto sent = worker.lend(session_with(1), kAllCells);
  for (const float weight : {0.0F, -1.0F, 2.0F, std::numeric_limits<float>::quiet_NaN()}) {
    Party other(first, server_options(Payload::f32));
    const auto offer = other.lend(session_with(1), kAllCells);
    const auto reply = server.answer(session_with(1), offer->parcel);
    Parcel wrong = reply->parcel;
    wrong.weight = weight;
    CHECK(other.mixer->complete(session_with(1), offer->parcel, wrong).error().fault == MixFault::weight);
    CHECK(contents(other.arena) == first);
  }
  Parcel late = sent->parcel;
  worker.mixer->give_up(session_with(1), sent->parcel);
  CHECK(worker.mixer->complete(session_with(1), late, late).error().fault == MixFault::late);
}

}  // namespace starling::training
