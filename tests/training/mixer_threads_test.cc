// Exchanges between replicas while their workers continue, on real threads.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "base/random.h"
#include "tests/training/mixers.h"

namespace starling::training {
namespace {

constexpr std::size_t kCellsAChunk = 4;

// Both ends of exchanges between two replicas, with one chunk in flight in each direction.
class Pair {
 public:
  Pair(models::Arena& a, models::Arena& b, const MixOptions& options)
      : a_(make_mixer(a, options)), b_(make_mixer(b, options)) {
    const std::size_t bytes = a_->room({0, kCellsAChunk});
    for (Room* room : {&from_a_, &from_b_, &answer_}) *room = Room(bytes);
  }

  // Two overlapping exchanges of every chunk: each side requests what the other has lent.
  void exchange() {
    const Session from_a = session_of(1, 1, 2), from_b = session_of(1, 2, 1);
    for (const Cells cells : chunks(a_->grid(), kCellsAChunk)) {
      const auto a = a_->lend(from_a, cells, from_a_.bytes()), b = b_->lend(from_b, cells, from_b_.bytes());
      finish(*a_, *b_, from_a, *a);
      finish(*b_, *a_, from_b, *b);
    }
  }

 private:
  void finish(Mixer& initiator, Mixer& responder, const Session& session, const Parcel& sent) {
    const auto reply = responder.answer(seen_by_responder(session), sent, answer_.bytes());
    STARLING_CHECK(reply.ok() && initiator.complete(session, sent, *reply).ok());
  }

  std::unique_ptr<Mixer> a_, b_;
  Room from_a_, from_b_, answer_;
};

// `passes` of dependent arithmetic, about 30 us each. The result prevents the compiler from removing it.
float compute(std::vector<float>& scratch, std::uint64_t passes) {
  float sum = 0;
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    for (std::size_t i = 1; i < scratch.size(); ++i) {
      scratch[i] = 0.5f * scratch[i - 1] + 0.25f * scratch[i] + 0.001f;
    }
    sum += scratch.back();
  }
  return sum;
}

// The work of both sides between their passes over the parameters.
struct Pacing {
  int adds;
  std::uint64_t between_adds = 0;       // passes of compute()
  std::uint64_t between_exchanges = 0;  // on average
};

struct Losses {
  double fraction;  // lost part of all updates of one element
  int exchanges;    // of every chunk
};

// One replica's worker uses plain adds while another replica exchanges with it. Compares the sums.
Losses measure(Pacing pacing) {
  constexpr std::size_t kFloats = 16 * kDefaultCellFloats;  // about LeNet's
  models::Arena a(kFloats), b(kFloats);
  const std::vector<float> ones(kFloats, 1.0f);
  // With a small norm, the updates between two exchanges would be rejected as far off.
  constexpr float kStart = 256;
  a.write(0, std::vector<float>(kFloats, kStart));
  b.write(0, std::vector<float>(kFloats, kStart));
  std::atomic<bool> done{false};
  std::atomic<float> result{0};
  std::thread worker([&] {
    std::vector<float> scratch(8192, 0.5f);
    for (int i = 0; i < pacing.adds; ++i) {
      result = compute(scratch, pacing.between_adds);
      a.add(0, ones);
    }
    done = true;
  });
  Pair pair(a, b, MixOptions{});
  Random random(1);
  std::vector<float> scratch(8192, 0.5f);
  int exchanges = 0;
  do {
    pair.exchange();
    exchanges += 2;
    // Half to one and a half of the average, so that the two sides do not run in step.
    for (std::uint64_t left = random.below(pacing.between_exchanges + 1) + pacing.between_exchanges / 2;
         left > 0 && !done; --left) {
      result = compute(scratch, 1);
    }
  } while (!done);
  worker.join();
  REQUIRE(std::isfinite(result.load()));

  std::vector<float> x(kFloats), y(kFloats);
  a.read(0, x);
  b.read(0, y);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kFloats; ++i) {
    wrong += std::abs(x[i] + y[i] - 2 * kStart - static_cast<float>(pacing.adds)) > 0.05f;
  }
  return {static_cast<double>(wrong) / (static_cast<double>(kFloats) * pacing.adds), exchanges};
}

double report(const char* name, Pacing pacing) {
  const Losses losses = measure(pacing);
  WARN(name << ": " << losses.fraction << " of the updates lost (" << pacing.adds << " adds, "
            << losses.exchanges << " exchanges)");
  return losses.fraction;
}

}  // namespace

TEST_CASE("with atomic adds and an exact mixer the sum over replicas is kept while workers continue",
          "[arena]") {
  constexpr std::size_t kFloats = 3000;
  constexpr int kAdds = 150;
  models::Arena a(kFloats), b(kFloats);
  Random random(1);
  const std::vector<float> start(kFloats, 16.0f);  // not small, see above
  a.write(0, start);
  b.write(0, start);
  std::vector<double> expected(kFloats, 32.0);
  std::vector<std::vector<float>> deltas(3, std::vector<float>(kFloats));
  for (auto& delta : deltas) {
    for (std::size_t i = 0; i < kFloats; ++i) {
      delta[i] = static_cast<float>(random.uniform(0.1, 0.2));
      expected[i] += kAdds * static_cast<double>(delta[i]);
    }
  }
  std::atomic<int> working{3};
  std::vector<std::thread> workers;
  for (std::size_t t = 0; t < 3; ++t) {
    workers.emplace_back([&, t] {
      for (int i = 0; i < kAdds; ++i) (t == 0 ? b : a).atomic_add(0, deltas[t]);
      --working;
    });
  }
  MixOptions options;
  options.cell_floats = 200;
  options.exact = true;
  Pair pair(a, b, options);
  int exchanges = 0;
  while (working > 0 || exchanges < 20) {
    pair.exchange();
    ++exchanges;
  }
  for (auto& worker : workers) worker.join();

  std::vector<float> x(kFloats), y(kFloats);
  a.read(0, x);
  b.read(0, y);
  double worst = 0;
  for (std::size_t i = 0; i < kFloats; ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(x[i]) + static_cast<double>(y[i]) - expected[i]));
  }
  INFO("worst " << worst << " after " << exchanges << " exchanges");
  REQUIRE(worst < 0.02);  // a lost update is at least 0.1; the rest is rounding of sums of about 35
}

TEST_CASE("plain adds lose almost no update to the exchange at the pace of training", "[arena]") {
  constexpr std::uint64_t kStep = 130;  // passes: a few milliseconds
  const double back_to_back = report("back to back", {.adds = 1000});
  const double busy =
      report("steps of milliseconds, exchanges without a pause", {.adds = 50, .between_adds = kStep});
  // Two exchanges of every chunk in sixteen steps: the default, every 8 steps.
  const double usual = report("steps of milliseconds, an exchange every 8 steps",
                              {.adds = 200, .between_adds = kStep, .between_exchanges = 16 * kStep});
  REQUIRE(back_to_back < 0.1);
  REQUIRE(busy < 0.1);
  REQUIRE(usual < 1e-4);
}

}  // namespace starling::training
