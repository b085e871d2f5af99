// Under push-sum, members that take weight and give none.
#include "training/mixing/rules/push_sum.h"

#include <array>
#include <memory>

#include "tests/catch.h"
#include "tests/training/mixers.h"
#include "tests/training/near.h"

namespace starling::training {

namespace {

MixOptions push_sum_options() {
  MixOptions options;
  options.rule = Rule::push_sum;
  options.cell_floats = 16;
  return options;
}

// What is left of each of two honest peers' mixing if they push in turn to each other and to a sink, which
// acknowledges everything and pushes nothing. Returns the pushes between the honest ones that weigh nothing.
int pushes_beside_a_sink(std::array<std::unique_ptr<Party>, 2>& honest, int rounds) {
  int empty = 0;
  std::uint64_t number = 0;
  for (int round = 0; round < rounds; ++round) {
    for (std::uint64_t i = 0; i < 2; ++i) {
      for (const std::uint64_t to : {std::uint64_t{3}, 2 - i}) {
        Session session = session_of(++number, i + 1, to);
        session.weight = 1.5F;
        const auto offer = honest[i]->lend(session, {0, 1});
        Parcel reply{.floats = 16, .payload = Payload::none, .weight = offer->parcel.weight};
        empty += to != 3 && offer->parcel.payload == Payload::none;
        if (to != 3) {
          Session seen = seen_by_responder(session);
          REQUIRE(honest[1 - i]->answer(seen, offer->parcel).ok());
        }
        REQUIRE(honest[i]->mixer->complete(session, offer->parcel, reply).ok());
      }
    }
  }
  return empty;
}

}  // namespace

TEST_CASE("under push-sum a member that takes weight and gives none gets a few weights, and mixing goes on") {
  Random random(5);
  const auto options = push_sum_options();
  std::array<std::unique_ptr<Party>, 2> honest;
  for (auto& party : honest) party = std::make_unique<Party>(random_values(random, 16), options);
  pushes_beside_a_sink(honest, 200);
  CHECK(pushes_beside_a_sink(honest, 100) == 0);
  for (const auto& party : honest) CHECK(party->mixer->counters().restarts <= 3);
  const auto a = contents(honest[0]->arena), b = contents(honest[1]->arena);
  for (std::size_t k = 0; k < a.size(); ++k) CHECK(near(wide(a[k]), wide(b[k]), 1e-4));
}

TEST_CASE("under push-sum a peer without weight begins again after sixteen pushes, unless some arrives") {
  Random random(6);
  const auto options = push_sum_options();
  Party peer(random_values(random, 16), options), other(random_values(random, 16), options);
  const auto& mixer = dynamic_cast<const PushSum&>(*peer.mixer);
  std::uint64_t number = 0;
  const auto pushes = [&] {  // each to another partner; nothing comes back
    ++number;
    const Session session = session_of(number, 1, 100 + number);
    const auto offer = peer.lend(session, {0, 1});
    if (offer->parcel.payload == Payload::none) return false;
    peer.mixer->give_up(session, offer->parcel);
    return true;
  };
  while (pushes()) {
  }
  for (int k = 0; k < 14; ++k) CHECK_FALSE(pushes());
  const Session session = session_of(1, 2, 1);
  const auto given = other.lend(session, {0, 1});
  REQUIRE(peer.answer(seen_by_responder(session), given->parcel).ok());
  while (pushes()) {
  }
  for (int k = 0; k < 15; ++k) CHECK_FALSE(pushes());
  CHECK(peer.mixer->counters().restarts == 0);
  CHECK(pushes());
  CHECK(peer.mixer->counters().restarts == 1);
  CHECK(mixer.share(0) == 0.5);
}

}  // namespace starling::training
