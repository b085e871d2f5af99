#include "training/mixing/rules/pairwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "tests/training/mixers.h"
#include "tests/training/near.h"
#include "training/mixing/payload.h"

namespace starling::training {
namespace {

MixOptions pairwise_options(Payload payload, std::size_t cell_floats, bool exact = false) {
  MixOptions options;
  options.payload = payload;
  options.cell_floats = cell_floats;
  options.exact = exact;
  return options;
}

}  // namespace

TEST_CASE("an exchange moves both replicas to their mean, chunk by chunk") {
  Random random(1);
  for (const bool exact : {false, true}) {
    const auto x = random_values(random, 100), y = random_values(random, 100);
    const auto options = pairwise_options(Payload::f32, 16, exact);
    Party initiator(x, options), responder(y, options);
    exchange(initiator, responder, session_of(1, 1, 2));
    const auto mixed_a = contents(initiator.arena), mixed_b = contents(responder.arena);
    for (std::size_t i = 0; i < 100; ++i) {
      REQUIRE(mixed_a[i] == x[i] + 0.5f * (y[i] - x[i]));
      REQUIRE(mixed_b[i] == y[i] + 0.5f * (x[i] - y[i]));
    }
    REQUIRE(initiator.mixer->mixes() == 1);
    REQUIRE(responder.mixer->mixes() == 1);
    REQUIRE(responder.mixer->counters().answered == 4);
    REQUIRE(responder.mixer->counters().overlapped == 0);
  }
}

TEST_CASE("both sides move by the same vector in every payload, each by its own share") {
  Random random(2);
  for (const Payload payload : kDense) {
    const auto x = random_values(random, 3000, 1), y = random_values(random, 3000, 1);
    Party initiator(x, pairwise_options(payload, 512)), responder(y, pairwise_options(payload, 512));
    exchange(initiator, responder, session_of(1, 1, 2), 3);
    const auto a = contents(initiator.arena), b = contents(responder.arena);
    double before = 0, after = 0, rounding = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      REQUIRE(near(wide(a[i]) + wide(b[i]), wide(x[i]) + wide(y[i]), 2e-6));
      const double moved = 2 * (wide(a[i]) - wide(x[i])), d = wide(y[i]) - wide(x[i]);
      rounding += 0.5 * square(moved - d);
      before += 0.5 * square(d);
      after += 0.5 * square(wide(a[i]) - wide(b[i]));
    }
    // Sum |x - mean|^2 falls by |d|^2 / 2 and rises by |d^ - d|^2 / 2, for any rounding.
    REQUIRE(near(after, rounding, 1e-3));
    REQUIRE(after < before * (payload == Payload::f32 ? 1e-12 : 2e-3));

    Session session = session_of(2, 1, 2);
    const auto offer = initiator.lend(session, {0, 1});
    Session answering = seen_by_responder(session);
    answering.own_share = 0.5;
    const auto reply = responder.answer(answering, offer->parcel);
    session.own_share = 0.25;
    REQUIRE(reply->parcel.weight == 0.5f);
    const auto p = decoded(offer->parcel), q = decoded(reply->parcel);
    REQUIRE(initiator.mixer->complete(session, offer->parcel, reply->parcel).ok());
    const auto a2 = contents(initiator.arena), b2 = contents(responder.arena);
    for (std::size_t i = 0; i < p.size(); ++i) {
      REQUIRE(near(wide(a2[i]), wide(a[i]) + 0.125 * (wide(q[i]) - wide(p[i])), 1e-6));
      REQUIRE(near(wide(b2[i]), wide(b[i]) + 0.25 * (wide(p[i]) - wide(q[i])), 1e-6));
    }
  }
}

TEST_CASE("a peer that has lent half of a chunk answers with the other half and a quarter") {
  Random random(2);
  for (const Payload payload : kDense) {
    const auto x = random_values(random, 16), theirs = random_values(random, 16),
               moved = random_values(random, 16);
    Party peer(x, pairwise_options(payload, 8)), other(theirs, pairwise_options(payload, 8));
    const Session own = session_of(1, 1, 2), others = session_of(1, 2, 1);
    const auto lent = peer.lend(own, {1, 1});
    peer.arena.add(0, moved);  // a worker's update, while half is lent
    const auto now = contents(peer.arena);
    const auto offer = other.lend(others, {0, 2});
    auto answer = peer.answer(seen_by_responder(others), offer->parcel);
    REQUIRE(answer->parcel.weight == 0.25f);
    REQUIRE(peer.mixer->counters().overlapped == 1);
    const auto after = contents(peer.arena);
    const auto value = decoded(answer->parcel), a = decoded(lent->parcel), b = decoded(offer->parcel);
    for (std::size_t i = 0; i < 16; ++i) {
      const float free = i < 8 ? now[i] : 2 * now[i] - a[i - 8];
      REQUIRE(near(wide(value[i]), wide(free), payload == Payload::f32 ? 0 : 0.06));
      REQUIRE(after[i] == now[i] + 0.25f * (b[i] - value[i]));
    }
    peer.mixer->give_up(own, lent->parcel);
    answer = peer.answer(seen_by_responder(others), offer->parcel);
    REQUIRE(answer->parcel.weight == 0.5f);
  }
}

TEST_CASE("an exchange without overlap lowers the energy by exactly 2w(1-w)|a - b|^2") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const std::size_t n = 2 + random.below(5), floats = 1 + random.below(50);
    std::vector<std::unique_ptr<Party>> parties;
    for (std::size_t i = 0; i < n; ++i) {
      parties.push_back(
          std::make_unique<Party>(random_values(random, floats), pairwise_options(Payload::f32, floats)));
    }
    const auto energy = [&] {
      std::vector<double> mean(floats, 0.0);
      double sum = 0;
      for (const auto& party : parties) {
        for (std::size_t i = 0; i < floats; ++i)
          mean[i] += wide(party->arena.data()[i]) / static_cast<double>(n);
      }
      for (const auto& party : parties) {
        for (std::size_t i = 0; i < floats; ++i) sum += square(wide(party->arena.data()[i]) - mean[i]);
      }
      return sum;
    };
    const double before = energy();
    double distance = 0;
    for (std::size_t i = 0; i < floats; ++i) {
      distance += square(wide(parties[0]->arena.data()[i]) - wide(parties[1]->arena.data()[i]));
    }
    exchange(*parties[0], *parties[1], session_of(1, 1, 2));
    REQUIRE(near(before - energy(), 0.5 * distance, 1e-6 * before, 1e-5));
  }
}

TEST_CASE("invalid values are rejected with a message and a fault, and leave the arena unchanged") {
  Random random(4);
  Party peer(random_values(random, 40), pairwise_options(Payload::f32, 16));
  const auto before = contents(peer.arena);
  const auto good = random_values(random, 16);
  struct Case {
    std::vector<float> values;
    MixFault fault;
  };
  std::vector<Case> cases;
  for (const float x : {kNan, kInfinity, -kInfinity, 1e38f, -1e38f}) {
    cases.push_back({good, std::isfinite(x) ? MixFault::too_large : MixFault::not_finite});
    cases.back().values[random.below(16)] = x;
  }
  cases.push_back({{}, MixFault::shape});
  cases.push_back({{good.begin(), good.end() - 1}, MixFault::shape});
  cases.push_back({std::vector<float>(17, 1.0f), MixFault::shape});
  const Session own = session_of(1, 1, 2), others = seen_by_responder(session_of(1, 2, 1));
  std::uint64_t refused = 0;
  for (const auto& [values, fault] : cases) {
    Room room = copy_of(std::as_bytes(std::span(values)));
    const Parcel parcel{.floats = 16, .weight = 0.5F, .values = room.bytes()};
    for (const bool lent : {false, true}) {
      MixResult<Packet> sent = lent ? peer.lend(own, {0, 1}) : Packet{};
      const auto answered = peer.answer(others, parcel);
      REQUIRE(!answered.ok());
      REQUIRE(answered.error().fault == fault);
      REQUIRE(answered.error().poisoned() == (fault != MixFault::shape));
      REQUIRE(!answered.error().message.empty());
      if (!lent) continue;
      const auto completed = peer.mixer->complete(own, sent->parcel, parcel);
      REQUIRE(completed.error().fault == fault);
      REQUIRE(peer.mixer->complete(own, sent->parcel, parcel).error().fault == MixFault::late);
      ++refused;
    }
  }
  REQUIRE(contents(peer.arena) == before);
  REQUIRE(peer.mixer->counters().refused[static_cast<std::size_t>(MixFault::late)] == refused);
  REQUIRE(peer.mixer->counters().answered == 0);
  REQUIRE(peer.mixer->mixes() == 0);
}

TEST_CASE("an invalid weight, offset or payload is rejected and leaves the arena unchanged") {
  Random random(4);
  Party peer(random_values(random, 40), pairwise_options(Payload::f32, 16));
  const auto before = contents(peer.arena);
  const auto good = random_values(random, 16);
  const Session own = session_of(1, 1, 2), others = seen_by_responder(session_of(1, 2, 1));
  Room room = copy_of(std::as_bytes(std::span(good)));
  for (const float w : {-0.5f, 0.125f, 0.3f, 0.75f, 1.0f, 1e30f, kNan, kInfinity}) {
    const auto sent = peer.lend(own, {0, 1});
    const Parcel parcel{.floats = 16, .weight = w, .values = room.bytes()};
    REQUIRE(peer.mixer->complete(own, sent->parcel, parcel).error().fault == MixFault::weight);
  }
  for (const auto& [offset, floats] : {std::pair<std::size_t, std::size_t>{48, 16},
                                       {SIZE_MAX - 15, 16},
                                       {8, 16},
                                       {0, 15},
                                       {0, 0},
                                       {32, 16},
                                       {16, SIZE_MAX - 15}}) {
    const Parcel parcel{.offset = offset, .floats = floats, .values = room.bytes()};
    Room reply(1 << 12);
    REQUIRE(peer.mixer->answer(others, parcel, reply.bytes()).error().fault == MixFault::shape);
  }
  for (const Payload payload : {Payload::bf16, Payload::int8, Payload::top_k, Payload::none}) {
    const Parcel parcel{.floats = 16, .payload = payload, .values = room.bytes()};
    REQUIRE(peer.answer(others, parcel).error().fault == MixFault::shape);
  }
  {
    const auto sent = peer.lend(own, {0, 1});
    const Parcel elsewhere{.offset = 16, .floats = 16, .weight = 0.5F, .values = room.bytes()};
    REQUIRE(peer.mixer->complete(own, sent->parcel, elsewhere).error().fault == MixFault::shape);
  }
  REQUIRE(contents(peer.arena) == before);
  REQUIRE(peer.mixer->counters().answered == 0);
  REQUIRE(peer.mixer->mixes() == 0);
}

TEST_CASE("a rejection for lack of resources ends the loan and mixes nothing") {
  Random random(5);
  Party peer(random_values(random, 8), pairwise_options(Payload::f32, 8));
  const auto before = contents(peer.arena);
  for (const Payload payload : {Payload::none, Payload::f32}) {
    const auto sent = peer.lend(session_of(1, 1, 2), {0, 1});
    const Parcel reply{.floats = 8, .payload = payload, .weight = 0};
    REQUIRE(peer.mixer->complete(session_of(1, 1, 2), sent->parcel, reply).ok());
    REQUIRE(contents(peer.arena) == before);
  }
}

TEST_CASE("a diverged replica sends nothing, and the fault is own_replica") {
  for (const Payload payload : kDense) {
    for (const float bad : {kNan, kInfinity, -1e38f}) {
      Random random(6);
      Party healthy(random_values(random, 20), pairwise_options(payload, 4));
      Party sick(random_values(random, 20), pairwise_options(payload, 4));
      sick.arena.write(9, std::vector<float>{bad});
      const auto first = sick.lend(session_of(1, 1, 2), {0, 2});
      REQUIRE(first.ok());
      const auto lent = sick.lend(session_of(2, 1, 2), {2, 2});
      REQUIRE(lent.error().fault == MixFault::own_replica);
      REQUIRE_FALSE(lent.error().poisoned());
      const auto offer = healthy.lend(session_of(1, 2, 1), {2, 3});
      const auto before = contents(sick.arena);
      REQUIRE(sick.answer(seen_by_responder(session_of(1, 2, 1)), offer->parcel).error().fault ==
              MixFault::own_replica);
      const auto after = contents(sick.arena);
      REQUIRE(std::memcmp(before.data(), after.data(), before.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("a chunk that is far off is rejected once enough distances are known, and not before") {
  Random random(7);
  const auto options = pairwise_options(Payload::f32, 64);
  Party peer(random_values(random, 128, 1), options);
  const auto own = contents(peer.arena);
  double norm = 0;
  for (const float x : own) norm += square(wide(x));
  std::uint64_t exchange_number = 0;
  const auto offer_to = [&](Party& to, double distance) {  // from the current replica
    auto values = contents(to.arena);
    for (auto& x : values) x += static_cast<float>(distance / std::sqrt(128.0));
    Party partner(values, options);
    const Session session = session_of(++exchange_number, 2, 1);
    const auto sent = partner.lend(session, {0, 2});
    return to.answer(seen_by_responder(session), sent->parcel);
  };
  for (int i = 0; i < 8; ++i) {
    REQUIRE(offer_to(peer, 0.1).ok());
    if (i < 7) continue;
    REQUIRE(offer_to(peer, 5 * std::sqrt(norm)).error().fault == MixFault::far_off);
    REQUIRE(offer_to(peer, 0.5 * std::sqrt(norm)).ok());
  }
  // A replica that has shrunk is judged by its earlier norm.
  peer.arena.write(0, std::vector<float>(128, 0.0f));
  REQUIRE(offer_to(peer, 3 * std::sqrt(norm)).ok());

  // A replica that was always zero is judged only by the median, 0.1.
  const std::vector<float> zeros(128, 0.0f);
  Party flat(zeros, options);
  const auto offer = [&](double distance) {
    flat.arena.write(0, zeros);
    return offer_to(flat, distance);
  };
  for (int i = 0; i < 8; ++i) REQUIRE(offer(0.1).ok());
  const auto refused = offer(1.7);
  REQUIRE(!refused.ok());
  REQUIRE(refused.error().fault == MixFault::far_off);
  REQUIRE(offer(1.5).ok());
  // Each rejection doubles the tolerated distance, so that a replica cannot be rejected forever.
  int refusals = 0;
  while (!offer(1000).ok()) ++refusals;
  REQUIRE(refusals >= 5);
  REQUIRE(refusals <= 11);
  flat.mixer->adopt();
  REQUIRE(offer(1000).ok());
}

namespace {

// A peer whose replica has the norm 8, and partners that offer values at a distance from it.
struct Offered {
  Offered() {
    for (std::uint64_t partner = 2; partner <= 4; ++partner)
      for (int i = 0; i < 8; ++i) REQUIRE(offer(partner, 0.1));
  }
  // A partner whose replica is at this distance. The direction is always the same.
  Party at(double distance) const {
    auto values = contents(peer.arena);
    for (float& x : values) x += static_cast<float>(distance / 8);
    return Party(values, pairwise_options(Payload::f32, 64));
  }
  // Whether the partner's answer to an offer of the peer is accepted.
  bool ask(std::uint64_t partner, double distance) {
    Party party = at(distance);
    const Session session = session_of(++exchange, 1, partner);
    const auto sent = peer.lend(session, {0, 1});
    REQUIRE(sent.ok());
    const auto reply = party.answer(seen_by_responder(session), sent->parcel);
    REQUIRE(reply.ok());
    const auto mixed = peer.mixer->complete(session, sent->parcel, reply->parcel);
    if (!mixed.ok()) REQUIRE(mixed.error().fault == MixFault::far_off);
    return mixed.ok();
  }
  // Whether the partner's offer is accepted.
  bool offer(std::uint64_t partner, double distance) {
    Party party = at(distance);
    const Session session = session_of(++exchange, partner, 1);
    const auto sent = party.lend(session, {0, 1});
    const auto answer = peer.answer(seen_by_responder(session), sent->parcel);
    if (!answer.ok()) REQUIRE(answer.error().fault == MixFault::far_off);
    return answer.ok();
  }
  double norm() const {
    double square_sum = 0;
    for (const float x : contents(peer.arena)) square_sum += square(wide(x));
    return std::sqrt(square_sum);
  }

  Party peer{std::vector<float>(64, 1.0F), pairwise_options(Payload::f32, 64)};
  std::uint64_t exchange = 0;
};

}  // namespace

TEST_CASE("rejections raise the bound only while most of the known partners are rejected") {
  Offered it;
  for (std::uint64_t stranger = 100; stranger < 130; ++stranger) CHECK_FALSE(it.offer(stranger, 50));
  for (int i = 0; i < 30; ++i) CHECK_FALSE(it.offer(2, 50));  // one of three
  CHECK_FALSE(it.offer(3, 50));                               // two of three: from here the bound doubles
  CHECK_FALSE(it.offer(3, 130));
  CHECK(it.offer(2, 50));
}

TEST_CASE("partners that do not come any more do not keep a replica from its only ones") {
  Offered it;
  for (int i = 0; i < 11; ++i) REQUIRE(it.ask(2, 0.1));
  CHECK_FALSE(it.offer(2, 50));  // one of three
  CHECK_FALSE(it.offer(2, 50));
  CHECK_FALSE(it.ask(2, 50));  // the peer has begun 12 exchanges, none with the two others
  CHECK(it.ask(2, 50));
}

TEST_CASE("what is mixed while the replica is not trusted does not raise the bound") {
  for (const bool trusted : {false, true}) {
    Offered it;
    if (trusted) it.peer.mixer->trust();
    const double bound = 2 * 4 * it.norm();
    for (int i = 0; i < 20; ++i) it.offer(2, 0.9 * 4 * it.norm());
    INFO("norm " << it.norm());
    CHECK((it.norm() > 1e6) == !trusted);
    CHECK(it.offer(3, 1.1 * bound) == !trusted);
    it.peer.mixer->trust();  // the loss is good nevertheless
    CHECK(it.offer(3, 1.1 * bound));
  }
}

TEST_CASE("the largest accepted values with random signs never make the parameters overflow") {
  for (const Payload payload : kDense) {
    Party peer(4, pairwise_options(payload, 4));
    Random random(6);
    const Session own = session_of(1, 1, 2);
    std::optional<Packet> sent;
    for (int i = 0; i < 5000; ++i) {
      const std::vector<float> theirs(4, random.chance(0.5) ? kLargestMagnitude : -kLargestMagnitude);
      Room room(encoded_bytes(payload, 4));
      encode(payload, theirs, 1, room.bytes());
      const Parcel parcel{.floats = 4,
                          .payload = payload,
                          .weight = random.chance(0.5) ? 0.5F : 0.25F,
                          .values = room.bytes()};
      switch (random.below(3)) {
        case 0:
          if (!sent) {
            if (auto lent = peer.lend(own, {0, 1})) sent = *std::move(lent);
          }
          break;
        case 1:
          (void)peer.answer(seen_by_responder(own), parcel);
          break;
        default:
          if (sent) (void)peer.mixer->complete(own, sent->parcel, parcel);
          sent.reset();
      }
      REQUIRE(all_finite(contents(peer.arena)));
    }
  }
}

}  // namespace starling::training
