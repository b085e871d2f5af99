// What noloco sends with int8: values for a partner that is near (training/mixing/near.h).
#include <cmath>
#include <numeric>

#include "tests/training/mixers.h"
#include "tests/training/near.h"
#include "training/mixing/near.h"

namespace starling::training {
namespace {

MixOptions noloco_options(Payload payload) {
  MixOptions options;
  options.rule = Rule::noloco;
  options.payload = payload;
  options.cell_floats = 64;
  return options;
}

// Peers that learn by drifting at random, each round more or less, and exchange in random pairs.
class NolocoSwarm {
 public:
  NolocoSwarm(std::uint64_t seed, const MixOptions& options, std::size_t n, std::size_t floats)
      : random_(seed) {
    const auto first = random_values(random_, floats, 1);
    for (std::size_t i = 0; i < n; ++i) parties_.push_back(std::make_unique<Party>(first, options));
    order_.resize(n);
    std::iota(order_.begin(), order_.end(), 0U);
  }

  void round(double drift) {
    for (const auto& party : parties_) {
      if (drift > 0) {
        auto step = random_values(random_, party->arena.size());
        for (float& x : step) x *= static_cast<float>(drift);
        party->arena.add(0, step);
      }
    }
    random_.shuffle(std::span(order_));
    for (std::size_t i = 0; i + 1 < order_.size(); i += 2)
      exchange(*parties_[order_[i]], *parties_[order_[i + 1]],
               session_of(++number_, order_[i], order_[i + 1]));
  }

  void settle() {
    for (const auto& party : parties_) party->mixer->settle();
  }

  std::vector<double> mean() const {
    std::vector<double> mean(parties_[0]->arena.size());
    for (const auto& party : parties_) {
      const auto x = contents(party->arena);
      for (std::size_t k = 0; k < x.size(); ++k) mean[k] += wide(x[k]) / static_cast<double>(parties_.size());
    }
    return mean;
  }
  // The root of the mean square of x - mean.
  double apart() const {
    const auto mean = this->mean();
    double sum = 0;
    for (const auto& party : parties_) {
      const auto x = contents(party->arena);
      for (std::size_t k = 0; k < x.size(); ++k) sum += square(wide(x[k]) - mean[k]);
    }
    return std::sqrt(sum / static_cast<double>(parties_.size() * mean.size()));
  }

 private:
  Random random_;
  std::vector<std::unique_ptr<Party>> parties_;
  std::vector<std::size_t> order_;
  std::uint64_t number_ = 0;
};

}  // namespace

TEST_CASE("replicas that learn no more settle at their mean, without momentum") {
  const auto moved = [](bool settles) {
    NolocoSwarm swarm(9, {.rule = Rule::noloco, .outer_rate = 0.7, .outer_momentum = 0.5}, 6, 200);
    for (int round = 0; round < 8; ++round) swarm.round(0.1);
    if (settles) swarm.settle();
    swarm.round(0);
    const std::vector<double> before = swarm.mean();
    const double apart = swarm.apart();
    for (int round = 0; round < 30; ++round) swarm.round(0);
    CHECK(swarm.apart() < 0.05 * apart);
    double most = 0;
    const std::vector<double> after = swarm.mean();
    for (std::size_t k = 0; k < before.size(); ++k) most = std::max(most, std::fabs(after[k] - before[k]));
    return most;
  };
  CHECK(moved(true) < 1e-6);
  CHECK(moved(false) > 1e-3);
}

TEST_CASE("int8 for a near receiver errs by a step of the reach, whatever the values") {
  Random random(1);
  for (const double mean : {0.0, 5.0, -700.0}) {
    const auto x = random_values(random, 700, mean);
    auto y = x;
    for (float& v : y) v += static_cast<float>(1e-3 * (2 * random.uniform() - 1));
    Room room(encoded_bytes(Payload::int8, x.size()));
    encode_near(x, 1e-3F, 9, room.bytes());
    std::vector<float> own(x.size()), theirs(x.size());
    decode_near(room.bytes(), x.size(), 0, x, own);
    decode_near(room.bytes(), y.size(), 0, y, theirs);
    CHECK(own == theirs);
    double error = 0;
    for (std::size_t k = 0; k < x.size(); ++k) error = std::max(error, std::abs(wide(own[k]) - wide(x[k])));
    CHECK(error <= std::max(1e-3 / 126, std::abs(mean) * 0x1p-19) * 1.01);
    // A receiver that is farther away gets values of its own neighborhood.
    for (float& v : y) v += 10;
    decode_near(room.bytes(), y.size(), 0, y, theirs);
    for (std::size_t k = 0; k < x.size(); ++k) REQUIRE(std::abs(wide(theirs[k]) - wide(y[k])) < 0.2);
    // Values that travel whole do not depend on the receiver.
    encode_near(x, kUnknownReach, 9, room.bytes());
    decode_near(room.bytes(), y.size(), 0, y, theirs);
    decode_near(room.bytes(), x.size(), 0, x, own);
    CHECK(own == theirs);
    const double step = (std::abs(mean) + 5) / 127;
    for (std::size_t k = 0; k < x.size(); ++k) REQUIRE(std::abs(wide(own[k]) - wide(x[k])) <= step);
  }
}

TEST_CASE("int8 for a near receiver decodes any bytes to something") {
  Random random(2);
  for (int attempt = 0; attempt < 300; ++attempt) {
    const std::size_t n = 1 + random.below(600);
    Room room(encoded_bytes(Payload::int8, n));
    for (std::byte& byte : room.bytes()) byte = static_cast<std::byte>(random.below(256));
    std::vector<float> near = random_values(random, n), out(n);
    near[0] = attempt % 2 == 0 ? kNan : kInfinity;
    decode_near(room.bytes(), n, 0, near, out);
  }
}

TEST_CASE("with int8 noloco's replicas agree as with f32, and errors do not accumulate") {
  const auto after = [](Payload payload, int quiet) {
    NolocoSwarm swarm(7, noloco_options(payload), 6, 500);
    for (int round = 0; round < 60; ++round) swarm.round(0.01);
    for (int round = 0; round < quiet; ++round) swarm.round(0);
    return swarm;
  };
  const NolocoSwarm exact = after(Payload::f32, 0), rounded = after(Payload::int8, 0);
  CHECK(rounded.apart() < 1.1 * exact.apart());
  const auto a = exact.mean(), b = rounded.mean();
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += square(a[k] - b[k]);
  // The peers have drifted by 0.01 sqrt(60) / sqrt(6) = 0.03 in the mean; values are about 1, of which a
  // plain int8 has steps of 0.03.
  CHECK(std::sqrt(sum / 500) < 2e-3);
  // Once nothing is learned, the differences shrink, and the steps with them.
  const double floor = after(Payload::int8, 120).apart();
  CAPTURE(floor);
  CHECK(floor < 1e-5);
}

TEST_CASE("replicas whose distance grows at once or that come from afar agree again with int8") {
  NolocoSwarm swarm(11, noloco_options(Payload::int8), 4, 200);
  for (int round = 0; round < 10; ++round) swarm.round(1e-4);
  swarm.round(1);  // ten thousand times farther than the latest steps
  for (int round = 0; round < 80; ++round) swarm.round(0);
  CAPTURE(swarm.apart());
  CHECK(swarm.apart() < 1e-3);
}

TEST_CASE("a cell that noloco has lent is answered with its free half in int8 as in f32") {
  const auto after = [](Payload payload) {
    Random random(5);
    const auto first = random_values(random, 700, 3);
    std::vector<std::unique_ptr<Party>> parties;
    for (int k = 0; k < 3; ++k) parties.push_back(std::make_unique<Party>(first, noloco_options(payload)));
    Party &a = *parties[0], &b = *parties[1], &c = *parties[2];
    const auto drift = [&] {
      for (const auto& party : parties) {
        auto step = random_values(random, 700);
        for (float& x : step) x *= 0.01F;
        party->arena.add(0, step);
      }
    };
    std::uint64_t number = 0;
    for (int round = 0; round < 4; ++round) {  // from now on each knows how far the others are
      drift();
      exchange(a, b, session_of(++number, 1, 2));
      exchange(b, c, session_of(++number, 2, 3));
      exchange(c, a, session_of(++number, 3, 1));
    }
    drift();
    const Session own = session_of(++number, 1, 2);
    const Cells cells{2, 3};
    const auto offer = a.lend(own, cells);
    REQUIRE(offer.ok());
    exchange(c, a, session_of(++number, 3, 1));
    REQUIRE(a.mixer->counters().overlapped > 0);
    const auto reply = b.answer(seen_by_responder(own), offer->parcel);
    REQUIRE(reply.ok());
    REQUIRE(a.mixer->complete(own, offer->parcel, reply->parcel).ok());
    return contents(a.arena);
  };
  const auto exact = after(Payload::f32), rounded = after(Payload::int8);
  double most = 0;
  for (std::size_t i = 0; i < exact.size(); ++i)
    most = std::max(most, std::fabs(wide(exact[i]) - wide(rounded[i])));
  CAPTURE(most);
  CHECK(most < 5e-3);  // a plain int8 has steps of 6/127 = 0.05
}

}  // namespace starling::training
