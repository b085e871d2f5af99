#include "training/mixing/rules/choco.h"

#include <cmath>
#include <numeric>

#include "tests/training/mixers.h"
#include "tests/training/near.h"

namespace starling::training {
namespace {

MixOptions choco_options(Payload payload, std::size_t cell_floats, double top_k = 0.1) {
  MixOptions options;
  options.rule = Rule::choco;
  options.payload = payload;
  options.top_k = top_k;
  options.cell_floats = cell_floats;
  return options;
}

constexpr Payload kAll[] = {Payload::f32, Payload::bf16, Payload::int8, Payload::top_k};

class Peers {
 public:
  Peers(std::size_t n, std::size_t floats, const MixOptions& options, std::uint64_t seed) : random(seed) {
    for (std::size_t i = 0; i < n; ++i)
      parties.push_back(std::make_unique<Party>(random_values(random, floats, 5), options));
  }

  std::vector<double> mean() const {
    std::vector<double> mean(parties.front()->arena.size(), 0.0);
    for (const auto& party : parties) {
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i] += wide(party->arena.data()[i]) / static_cast<double>(parties.size());
      }
    }
    return mean;
  }
  double disagreement() const {
    const auto center = mean();
    double sum = 0;
    for (const auto& party : parties) {
      for (std::size_t i = 0; i < center.size(); ++i) sum += square(wide(party->arena.data()[i]) - center[i]);
    }
    return sum;
  }
  // Exchanges between random pairs.
  void mingle(int exchanges) {
    for (int i = 0; i < exchanges; ++i) {
      const std::size_t a = random.below(parties.size()),
                        b = (a + 1 + random.below(parties.size() - 1)) % parties.size();
      exchange(*parties[a], *parties[b], session_of(++number, a, b), 1 + random.below(3));
    }
  }

  Random random;
  std::vector<std::unique_ptr<Party>> parties;
  std::uint64_t number = 0;
};

}  // namespace

TEST_CASE("choco brings peers to their mean in every payload at its own rate, and keeps the sum") {
  for (const Payload payload : kAll) {
    INFO("payload " << static_cast<int>(payload));
    Peers peers(5, 600, choco_options(payload, 128), 1);
    const auto mean = peers.mean();
    const double before = peers.disagreement();
    peers.mingle(payload == Payload::top_k ? 2500 : 400);
    const auto after = peers.mean();
    for (std::size_t i = 0; i < mean.size(); ++i) REQUIRE(near(after[i], mean[i], 1e-5));
    REQUIRE(peers.disagreement() < 1e-6 * before);
  }
}

TEST_CASE("choco's bytes are those of its payload, plus plain floats at a first meeting for top-k") {
  for (const Payload payload : kAll) {
    Peers peers(2, 1024, choco_options(payload, 512, 0.01), 2);
    const std::size_t first = peers.parties[0]->lend(session_of(1, 0, 1), {0, 2})->parcel.values.size();
    peers.parties[0]->mixer->adopt();
    peers.mingle(2);
    const auto offer = peers.parties[0]->lend(session_of(99, 0, 1), {0, 2});
    const std::size_t later = offer->parcel.values.size();
    const std::size_t expected = payload == Payload::f32 ? 4096 : payload == Payload::bf16 ? 2048 : 1024 + 16;
    REQUIRE(first == (payload == Payload::top_k ? 4096 : expected));
    REQUIRE(later == (payload == Payload::top_k ? 12 * 8 : expected));
    REQUIRE(offer->parcel.sequence != 0);
  }
}

TEST_CASE("choco recovers from any loss between two peers and converges") {
  for (const Payload payload : kAll) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      INFO("payload " << static_cast<int>(payload) << ", seed " << seed);
      auto options = choco_options(payload, 32);
      // Copies are dropped too, but all are kept for payloads whose first meeting rounds.
      options.links = payload == Payload::f32 || payload == Payload::top_k ? 2 : 4;
      Peers peers(5, 100, options, seed);
      Random& random = peers.random;
      for (int i = 0; i < 60; ++i) {
        const std::size_t a = random.below(5), b = (a + 1 + random.below(4)) % 5;
        const Session session = session_of(++peers.number, a, b);
        for (const Cells cells : chunks(peers.parties[a]->mixer->grid(), 1 + random.below(3))) {
          Mixer& initiator = *peers.parties[a]->mixer;
          const auto offer = peers.parties[a]->lend(session, cells);
          if (random.chance(0.1)) {  // the offer is lost
            initiator.give_up(session, offer->parcel);
            break;
          }
          const auto reply = peers.parties[b]->answer(seen_by_responder(session), offer->parcel);
          REQUIRE(reply.ok());
          if (random.chance(0.2)) {  // the reply is lost
            initiator.give_up(session, offer->parcel);
            break;
          }
          REQUIRE(initiator.complete(session, offer->parcel, reply->parcel).ok());
        }
      }
      const auto mean = peers.mean();
      const double before = peers.disagreement();
      peers.mingle(600);
      const auto after = peers.mean();
      for (std::size_t i = 0; i < mean.size(); ++i) REQUIRE(near(after[i], mean[i], 1e-5));
      REQUIRE(peers.disagreement() < 1e-3 * before + 1e-8);
      REQUIRE(dynamic_cast<const Choco&>(*peers.parties[0]->mixer).links() <= options.links);
    }
  }
}

TEST_CASE("of two crossing offers on a link only the lower id's is mixed, without loss") {
  for (const Payload payload : kAll) {
    for (const bool met : {false, true}) {
      INFO("payload " << static_cast<int>(payload) << ", met " << met);
      Peers peers(2, 200, choco_options(payload, 50), 3);
      if (met) {
        peers.mingle(3);
        for (const auto& party : peers.parties) party->arena.add(0, random_values(peers.random, 200));
      }
      Party &low = *peers.parties[0], &high = *peers.parties[1];
      const auto mean = peers.mean();
      const Session from_low = session_of(100, 0, 1), from_high = session_of(101, 1, 0);
      const auto a = low.lend(from_low, {0, 2}), b = high.lend(from_high, {1, 2});
      const auto to_high = low.answer(seen_by_responder(from_high), b->parcel);
      REQUIRE(to_high->parcel.payload == Payload::none);
      const auto to_low = high.answer(seen_by_responder(from_low), a->parcel);
      REQUIRE(to_low->parcel.payload != Payload::none);
      REQUIRE(to_low->parcel.weight == 0.5f);
      REQUIRE(high.mixer->complete(from_high, b->parcel, to_high->parcel)->norm_square == 0);
      REQUIRE(low.mixer->complete(from_low, a->parcel, to_low->parcel)->norm_square > 0);
      const auto after = peers.mean();
      for (std::size_t i = 0; i < mean.size(); ++i) REQUIRE(near(after[i], mean[i], 2e-6));
      const double apart = peers.disagreement();
      peers.mingle(300);
      REQUIRE(peers.disagreement() < 1e-4 * apart);
    }
  }
}

TEST_CASE("while a chunk is lent on one link, choco gives others the free half, at a quarter") {
  Random random(6);
  for (const bool met : {false, true}) {
    const auto x = random_values(random, 32), y = random_values(random, 32);
    Party peer(x, choco_options(Payload::f32, 16)), second(y, choco_options(Payload::f32, 16)),
        third(y, choco_options(Payload::f32, 16));
    if (met) {
      exchange(peer, second, session_of(1, 1, 2));
      exchange(third, peer, session_of(1, 3, 1));
    }
    const auto a = contents(peer.arena);
    const auto lent = peer.lend(session_of(2, 1, 2), {1, 1});
    REQUIRE(lent.ok());
    peer.arena.add(0, random_values(random, 32));  // a worker's update, while half is lent
    const auto now = contents(peer.arena), theirs = contents(third.arena);
    const auto offer = third.lend(session_of(3, 3, 1), {0, 2});
    const auto reply = peer.answer(seen_by_responder(session_of(3, 3, 1)), offer->parcel);
    REQUIRE(reply->parcel.weight == 0.25f);
    REQUIRE(third.mixer->complete(session_of(3, 3, 1), offer->parcel, reply->parcel).ok());
    for (std::size_t i = 0; i < 32; ++i) {
      const double value = i < 16 ? wide(now[i]) : 2 * wide(now[i]) - wide(a[i]);
      REQUIRE(near(wide(peer.arena.data()[i]), wide(now[i]) + 0.25 * (wide(theirs[i]) - value), 1e-5));
      REQUIRE(near(wide(third.arena.data()[i]), wide(theirs[i]) + 0.25 * (value - wide(theirs[i])), 1e-5));
    }
  }
}

TEST_CASE("choco's overlapping exchanges on several links keep the sum and do not diverge") {
  for (const Payload payload : kAll) {
    INFO("payload " << static_cast<int>(payload));
    Peers peers(6, 64, choco_options(payload, 16), 4);
    const auto mean = peers.mean();
    const double before = peers.disagreement();
    Random& random = peers.random;
    std::uint64_t overlapped = 0;
    for (int round = 0; round < 150; ++round) {
      // Each peer begins an exchange with the peer `hop` places ahead, all at once: closed circles of
      // overlapping exchanges.
      const std::size_t hop = 1 + random.below(5);
      std::vector<Packet> offers, replies;
      std::vector<Session> sessions;
      for (std::size_t i = 0; i < 6; ++i) {
        sessions.push_back(session_of(++peers.number, i, (i + hop) % 6));
        offers.push_back(*peers.parties[i]->lend(sessions[i], {0, 4}));
      }
      for (std::size_t i = 0; i < 6; ++i) {
        auto reply = peers.parties[(i + hop) % 6]->answer(seen_by_responder(sessions[i]), offers[i].parcel);
        REQUIRE(reply.ok());
        replies.push_back(*std::move(reply));
      }
      for (std::size_t i = 0; i < 6; ++i) {
        REQUIRE(peers.parties[i]->mixer->complete(sessions[i], offers[i].parcel, replies[i].parcel).ok());
      }
    }
    for (const auto& party : peers.parties) overlapped += party->mixer->counters().overlapped;
    REQUIRE(overlapped > 300);
    const auto after = peers.mean();
    for (std::size_t i = 0; i < mean.size(); ++i) REQUIRE(near(after[i], mean[i], 1e-4));
    REQUIRE(peers.disagreement() < 1e-3 * before);
  }
}

}  // namespace starling::training
