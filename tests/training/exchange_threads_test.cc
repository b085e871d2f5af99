// Exchanges between replicas whose workers go on meanwhile, on real threads.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "base/random.h"
#include "tests/catch.h"
#include "training/exchange.h"

namespace starling::training {
namespace {

// Both ends of exchanges between two replicas, with up to a window of chunks in flight in each direction.
class Pair {
 public:
  Pair(models::Arena& a, models::Arena& b, std::size_t chunk, PairwiseMixer::Loss loss)
      : a_(a, chunk, loss), b_(b, chunk, loss), to_b_(chunk), to_a_(chunk), answer_(chunk) {}

  // Two exchanges of every chunk that overlap: each side asks for what the other has lent.
  void exchange() {
    for (std::size_t k = 0; k < a_.grid().count(); ++k) {
      const std::size_t n = a_.grid().floats(k);
      const std::span<float> from_a = std::span(to_b_).first(n), from_b = std::span(to_a_).first(n);
      const std::span<float> answer = std::span(answer_).first(n);
      a_.lend(k, from_a);
      b_.lend(k, from_b);
      finish(a_, b_, k, from_a, answer);
      finish(b_, a_, k, from_b, answer);
    }
  }

 private:
  static void finish(PairwiseMixer& initiator, PairwiseMixer& responder, std::size_t chunk,
                     std::span<float> lent, std::span<float> answer) {
    const auto w = responder.answer(chunk, lent, answer);
    STARLING_CHECK(w.ok() && initiator.complete(chunk, answer, *w).ok());
  }

  PairwiseMixer a_, b_;
  std::vector<float> to_b_, to_a_, answer_;
};

// Some milliseconds of arithmetic, as a step has between its updates; the result keeps it from being left
// out.
float compute(std::vector<float>& scratch) {
  float sum = 0;
  for (int pass = 0; pass < 150; ++pass) {
    for (std::size_t i = 1; i < scratch.size(); ++i) {
      scratch[i] = 0.5f * scratch[i - 1] + 0.25f * scratch[i] + 0.001f;  // each depends on the one before
    }
    sum += scratch.back();
  }
  return sum;
}

struct Losses {
  double fraction;  // of all updates of one element
  int exchanges;
};

// `adds` updates of each replica by its worker with plain adds, exchanges all the while; compares the sums.
Losses measure(int adds, bool paced) {
  constexpr std::size_t kFloats = 4 * kDefaultChunkFloats;  // about LeNet's
  models::Arena a(kFloats), b(kFloats);
  const std::vector<float> ones(kFloats, 1.0f);
  std::atomic<bool> done{false};
  std::atomic<float> result{0};
  std::thread worker([&] {
    std::vector<float> scratch(8192, 0.5f);
    for (int i = 0; i < adds; ++i) {
      a.add(0, ones);
      if (paced) result += compute(scratch);
    }
    done = true;
  });
  Pair pair(a, b, kDefaultChunkFloats, PairwiseMixer::Loss::tolerated);
  int exchanges = 0;
  do {
    pair.exchange();
    ++exchanges;
  } while (!done);
  worker.join();
  REQUIRE(std::isfinite(result.load()));

  std::vector<float> x(kFloats), y(kFloats);
  a.read(0, x);
  b.read(0, y);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kFloats; ++i) wrong += std::abs(x[i] + y[i] - static_cast<float>(adds)) > 0.05f;
  return {static_cast<double>(wrong) / (static_cast<double>(kFloats) * adds), exchanges};
}

}  // namespace

TEST_CASE("with atomic adds and an exact mixer the sum over replicas is kept while workers go on") {
  constexpr std::size_t kFloats = 3000, kChunk = 700;
  constexpr int kAdds = 150;
  models::Arena a(kFloats), b(kFloats);
  Random random(1);
  std::vector<double> expected(kFloats, 0.0);
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
  Pair pair(a, b, kChunk, PairwiseMixer::Loss::exact);
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

TEST_CASE("plain adds lose next to nothing to the exchange when a step lies between them") {
  const Losses harsh = measure(1000, false);
  WARN("updates lost back to back: " << harsh.fraction << " (1000 adds, " << harsh.exchanges
                                     << " exchanges)");
  const Losses paced = measure(60, true);
  WARN("updates lost with arithmetic between: " << paced.fraction << " (60 adds, " << paced.exchanges
                                                << " exchanges)");
  REQUIRE(paced.fraction < 1e-4);
}

}  // namespace starling::training
