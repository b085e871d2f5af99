#include "training/mixing/rules/top_k.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tests/training/mixers.h"
#include "tests/training/near.h"

namespace starling::training {
namespace {

MixOptions sparse(std::size_t cell_floats, double fraction) {
  MixOptions options;
  options.payload = Payload::top_k;
  options.top_k = fraction;
  options.cell_floats = cell_floats;
  return options;
}

// A parcel of entries in its own memory.
Packet packet_of(std::size_t floats, const std::vector<float>& values,
                 const std::vector<std::uint32_t>& places) {
  Packet packet{{}, Room(values.size() * 4 + places.size() * 4 + 1)};
  packet.parcel = {.floats = floats,
                   .payload = Payload::top_k,
                   .entries = static_cast<std::uint32_t>(values.size()),
                   .values = write_entries(values, places, packet.room.bytes())};
  return packet;
}

}  // namespace

TEST_CASE("the largest magnitudes equal those of a full sort, with the first of equals, in order") {
  Random random(1);
  for (int i = 0; i < 500; ++i) {
    const std::size_t n = 1 + random.below(400);
    auto values = random_values(random, n);
    if (random.chance(0.5)) {
      for (auto& v : values)
        v = std::round(v * 2) * (random.chance(0.5) ? 1e-40f : 1.0f);  // many equal values, and denormals
    }
    const std::size_t count = random.below(n + 1);
    std::vector<std::uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return std::abs(values[a]) > std::abs(values[b]); });
    order.resize(count);
    std::sort(order.begin(), order.end());
    for (auto& place : order) place += 7;
    std::vector<std::uint32_t> places;
    select_largest(values, count, 7, places);
    REQUIRE(places == order);
  }
}

TEST_CASE("a fraction of a cell is rounded up, and is at most one half") {
  REQUIRE(entries_of(0.01, 8192) == 82);
  REQUIRE(entries_of(0.01, 50) == 1);
  REQUIRE(entries_of(1e-9, 8192) == 1);
  REQUIRE(entries_of(1, 8192) == 4096);
  REQUIRE(entries_of(0.5, 3) == 1);
  REQUIRE(entries_of(0.5, 1) == 1);
}

TEST_CASE("entries from a peer are accepted only if their places ascend within the chunk") {
  const auto good = packet_of(10, {1, 2, 3}, {0, 4, 9});
  const auto entries = read_entries(good.parcel, true);
  REQUIRE(std::vector<float>(entries->values.begin(), entries->values.end()) == std::vector<float>{1, 2, 3});
  REQUIRE(std::vector<std::uint32_t>(entries->places.begin(), entries->places.end()) ==
          std::vector<std::uint32_t>{0, 4, 9});
  REQUIRE(read_entries(good.parcel, false).error().fault == MixFault::shape);
  for (const std::vector<std::uint32_t>& places :
       {std::vector<std::uint32_t>{4, 0, 9}, {0, 4, 4}, {0, 4, 10}, {0, 4, UINT32_MAX}, {}}) {
    const auto bad = packet_of(10, {1, 2, 3}, places);
    REQUIRE(read_entries(bad.parcel, true).error().fault == MixFault::shape);
  }
  auto parcel = good.parcel;
  for (const std::uint32_t n : {0U, 2U, 4U, 11U, UINT32_MAX}) {
    parcel.entries = n;
    REQUIRE(!read_entries(parcel, true).ok());
  }
}

TEST_CASE("pairwise top-k mixes only the places that changed most since their last mix, on both sides") {
  Random random(2);
  const auto start = random_values(random, 100);
  Party a(start, sparse(20, 0.1)), b(start, sparse(20, 0.1));
  auto moved = start;
  for (std::size_t i = 0; i < 100; ++i) moved[i] += 0.01f * static_cast<float>(random.normal());
  const std::set<std::size_t> most = {3, 17, 20, 39, 41, 59, 60, 61, 98, 99};  // two in every cell
  for (const std::size_t i : most) moved[i] += 1;
  a.arena.write(0, moved);
  auto of_b = start;
  for (auto& x : of_b) x += 0.5f;
  b.arena.write(0, of_b);
  exchange(a, b, session_of(1, 1, 2), 2);
  const auto after_a = contents(a.arena), after_b = contents(b.arena);
  for (std::size_t i = 0; i < 100; ++i) {
    const bool mixed = most.count(i) == 1;
    const double middle = (wide(moved[i]) + wide(of_b[i])) / 2;
    REQUIRE(near(wide(after_a[i]), mixed ? middle : wide(moved[i]), 1e-6));
    REQUIRE(near(wide(after_b[i]), mixed ? middle : wide(of_b[i]), 1e-6));
  }
  // What was not sent stays in the difference, what was sent leaves it: other places are next.
  const auto next = a.lend(session_of(2, 1, 2), {0, 5});
  const auto entries = read_entries(next->parcel, true);
  REQUIRE(entries->places.size() == 10);
  for (const auto place : entries->places) REQUIRE(most.count(place) == 0);
  REQUIRE(next->parcel.values.size() == 80);
}

TEST_CASE("pairwise top-k answers with the free half of lent places, at a quarter, and conserves the sum") {
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    INFO(i);
    constexpr std::size_t n = 60;
    const std::size_t cell = 2 + random.below(30);
    Party a(random_values(random, n), sparse(cell, 0.3)), b(random_values(random, n), sparse(cell, 0.3));
    for (Party* party : {&a, &b}) party->arena.add(0, random_values(random, n));
    std::vector<double> sum(n);
    for (std::size_t k = 0; k < n; ++k) sum[k] = wide(a.arena.data()[k]) + wide(b.arena.data()[k]);
    // Each side requests all places at once; the answers come in any order.
    const Session from_a = session_of(1, 1, 2), from_b = session_of(1, 2, 1);
    struct Pending {
      Packet sent, reply;
    };
    std::vector<Pending> of_a, of_b;
    for (const Cells cells : chunks(a.mixer->grid(), 2)) of_a.push_back({*a.lend(from_a, cells), {}});
    for (const Cells cells : chunks(b.mixer->grid(), 3)) of_b.push_back({*b.lend(from_b, cells), {}});
    for (auto& pending : of_a) pending.reply = *b.answer(seen_by_responder(from_a), pending.sent.parcel);
    for (auto& pending : of_b) pending.reply = *a.answer(seen_by_responder(from_b), pending.sent.parcel);
    for (auto& pending : of_a) {
      REQUIRE(pending.reply.parcel.weight == 0.25f);
      REQUIRE(a.mixer->complete(from_a, pending.sent.parcel, pending.reply.parcel).ok());
    }
    for (auto& pending : of_b)
      REQUIRE(b.mixer->complete(from_b, pending.sent.parcel, pending.reply.parcel).ok());
    for (std::size_t k = 0; k < n; ++k) {
      REQUIRE(near(wide(a.arena.data()[k]) + wide(b.arena.data()[k]), sum[k], 2e-6));
    }
  }
}

TEST_CASE("pairwise top-k gives the free half of lent places, and all of the others") {
  Random random(5);
  Party peer(random_values(random, 40), sparse(10, 0.3));
  peer.arena.add(0, random_values(random, 40));
  const auto lent = peer.lend(session_of(1, 1, 2), {1, 2});  // [10, 30)
  const auto sent = read_entries(lent->parcel, true);
  peer.arena.add(0, random_values(random, 40));  // a worker's update meanwhile
  const auto now = contents(peer.arena);
  std::vector<std::uint32_t> places(40);
  std::iota(places.begin(), places.end(), 0U);
  auto offer = packet_of(40, random_values(random, 40), places);
  const auto reply = peer.answer(session_of(1, 2, 2), offer.parcel);
  REQUIRE(reply->parcel.weight == 0.25f);
  const auto values = read_entries(reply->parcel, false)->values;
  const auto theirs = read_entries(offer.parcel, true)->values;
  std::size_t halves = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    const auto found =
        i < 10 ? sent->places.end() : std::find(sent->places.begin(), sent->places.end(), i - 10);
    const bool half = found != sent->places.end();
    halves += half;
    const float a = half ? sent->values[static_cast<std::size_t>(found - sent->places.begin())] : now[i];
    REQUIRE(values[i] == 2 * now[i] - a);
    REQUIRE(peer.arena.data()[i] == now[i] + 0.25f * (theirs[i] - values[i]));
  }
  REQUIRE(halves == 6);
}

TEST_CASE("replicas that drift apart randomly stay close under pairwise top-k") {
  Random random(4);
  constexpr std::size_t n = 6, floats = 512;
  const auto start = random_values(random, floats, 10);
  std::vector<std::unique_ptr<Party>> parties;
  for (std::size_t i = 0; i < n; ++i) parties.push_back(std::make_unique<Party>(start, sparse(128, 0.1)));
  const auto spread = [&] {
    double sum = 0;
    for (std::size_t k = 0; k < floats; ++k) {
      double mean = 0;
      for (const auto& party : parties) mean += wide(party->arena.data()[k]) / n;
      for (const auto& party : parties) sum += square(wide(party->arena.data()[k]) - mean);
    }
    return sum;
  };
  std::uint64_t number = 0;
  double last = 0;
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& party : parties) {
      auto step = random_values(random, floats);
      for (auto& s : step) s *= 0.01f;
      party->arena.add(0, step);
    }
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t j = (i + 1 + random.below(n - 1)) % n;
      exchange(*parties[i], *parties[j], session_of(++number, i, j));
    }
    if (round >= kRounds - 20) last += spread() / 20;
  }
  const double alone = floats * (n - 1) * kRounds * 1e-4;
  REQUIRE(last < 0.2 * alone);
}

}  // namespace starling::training
