// Each pass of the arena against its definition, with lengths and offsets that are not multiples of a vector,
// and with threads.
#include "models/arena.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"

namespace starling::models {
namespace {

constexpr std::size_t kLongest = 519;  // pass

std::vector<float> draw(Random& random, std::size_t n) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

bool close(float a, double b) { return std::abs(a - b) < 1e-6; }

std::vector<float> contents(const Arena& arena) {
  std::vector<float> values(arena.size());
  arena.read(0, values);
  return values;
}

// Calls `pass(arena, offset, n)` at many offsets. Checks that each element inside equals `expected(i,
// before)`, and that no other element changed.
void check_pass(const std::function<void(Arena&, std::size_t, std::size_t)>& pass,
                const std::function<double(std::size_t, float)>& expected) {
  Random random(31);
  for (const std::size_t n : {0, 1, 3, 7, 8, 15, 16, 17, 31, 63, 64, 65, 100, 127, 128, 200, 519}) {
    for (const std::size_t offset : {0, 1, 5, 16, 27}) {
      Arena arena(kLongest + 28);
      const std::vector<float> before = draw(random, arena.size());
      arena.write(0, before);
      pass(arena, offset, n);
      const std::vector<float> after = contents(arena);
      for (std::size_t i = 0; i < after.size(); ++i) {
        const bool inside = i >= offset && i < offset + n;
        REQUIRE((inside ? close(after[i], expected(i - offset, before[i])) : after[i] == before[i]));
      }
    }
  }
}

}  // namespace

TEST_CASE("an arena starts at zero and on a cache line", "[arena]") {
  const Arena arena(1000);
  REQUIRE(arena.size() == 1000);
  CHECK(reinterpret_cast<std::uintptr_t>(arena.data()) % 64 == 0);
  for (const float value : contents(arena)) REQUIRE(value == 0.0F);
}

TEST_CASE("written values are read back, from any offset", "[arena]") {
  Random random(30);
  const std::vector<float> values = draw(random, kLongest);
  check_pass(
      [&](Arena& arena, std::size_t at, std::size_t n) { arena.write(at, std::span(values).first(n)); },
      [&](std::size_t i, float) { return values[i]; });
  Arena arena(50);
  arena.write(7, std::span(values).first(43));
  std::vector<float> part(20);
  arena.read(10, part);
  CHECK(part == std::vector<float>(values.begin() + 3, values.begin() + 23));
}

TEST_CASE("reading returns the largest magnitude at any place, and NaN is larger than all numbers",
          "[arena]") {
  Random random(29);
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  for (const std::size_t n : {1, 17, 64, 65, 200, 519}) {
    Arena arena(n + 3);
    std::vector<float> out(n);
    CHECK(arena.read(3, out) == 0);
    const std::vector<float> values = draw(random, n);
    for (std::size_t i = 0; i < n; ++i) {
      for (const float largest : {-2.5F, 7.0F, -infinity, nan, -nan}) {
        arena.write(3, values);
        arena.write(3 + i, std::span(&largest, 1));
        const float said = arena.read(3, out);
        if (std::isnan(largest)) {
          REQUIRE(std::isnan(said));
          REQUIRE(std::isnan(out[i]));
        } else {
          REQUIRE(said == std::abs(largest));
          REQUIRE(out[i] == largest);
        }
      }
    }
  }
}

TEST_CASE("both kinds of addition add", "[arena]") {
  Random random(32);
  const std::vector<float> delta = draw(random, kLongest);
  const auto sum = [&](std::size_t i, float x) { return static_cast<double>(x) + delta[i]; };
  check_pass([&](Arena& arena, std::size_t at, std::size_t n) { arena.add(at, std::span(delta).first(n)); },
             sum);
  check_pass(
      [&](Arena& arena, std::size_t at, std::size_t n) { arena.atomic_add(at, std::span(delta).first(n)); },
      sum);
}

TEST_CASE("mixing moves a replica by the weighted difference of the two vectors that were sent", "[arena]") {
  Random random(33);
  const std::vector<float> theirs = draw(random, kLongest), mine = draw(random, kLongest);
  check_pass(
      [&](Arena& arena, std::size_t at, std::size_t n) {
        arena.mix(at, std::span(theirs).first(n), std::span(mine).first(n), 0.3F);
      },
      [&](std::size_t i, float x) { return x + 0.3 * (theirs[i] - mine[i]); });
}

TEST_CASE("mixing at places changes only those places and returns their new values", "[arena]") {
  Random random(34);
  Arena arena(100);
  const std::vector<float> before = draw(random, 100), theirs = draw(random, 3), own = draw(random, 3);
  arena.write(0, before);
  const std::vector<std::uint32_t> places = {0, 7, 69};
  std::vector<float> mixed(3);
  arena.mix_at(30, places, theirs, own, 0.3F, mixed);
  const auto after = contents(arena);
  for (std::size_t i = 0; i < 100; ++i) {
    const auto at = std::find(places.begin(), places.end(), i - 30) - places.begin();
    const bool mixes = i >= 30 && at < 3;
    const auto k = static_cast<std::size_t>(mixes ? at : 0);
    REQUIRE(close(after[i], static_cast<float>(before[i] + (mixes ? 0.3 * (theirs[k] - own[k]) : 0.0))));
    if (mixes) REQUIRE(mixed[k] == after[i]);
  }
}

TEST_CASE("a step along a velocity does not change it, and following sets it from the arena's motion",
          "[arena]") {
  Random random(35);
  constexpr std::size_t n = 77;
  Arena arena(n);
  const std::vector<float> start = draw(random, n), gradient = draw(random, n), velocity = draw(random, n);
  arena.write(0, start);
  arena.sgd_along(gradient, velocity, {.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F});
  const auto after = contents(arena);
  auto followed = velocity, last = start;
  arena.follow(followed, last, 0.75F, 2.0F);
  for (std::size_t i = 0; i < n; ++i) {
    const double g = static_cast<double>(gradient[i]) + 0.01 * static_cast<double>(start[i]);
    REQUIRE(close(after[i], static_cast<float>(start[i] - 0.1 * (0.9 * velocity[i] + g))));
    REQUIRE(close(followed[i], static_cast<float>(0.75 * velocity[i] + 2.0 * (start[i] - after[i]))));
  }
  REQUIRE(last == after);
  REQUIRE(contents(arena) == after);
}

TEST_CASE("the fused SGD pass follows the formulas of momentum, weight decay and Nesterov", "[arena]") {
  Random random(37);
  for (const bool nesterov : {false, true}) {
    for (const std::size_t size : {1U, 7U, 16U, 33U, 100U}) {
      Arena arena(size);
      std::vector<float> x = draw(random, size), velocity(size, 0.0F);
      arena.write(0, x);
      std::vector<double> x_expected(x.begin(), x.end()), v_expected(size, 0.0);
      for (int step = 0; step < 4; ++step) {
        const std::vector<float> gradient = draw(random, size);
        arena.sgd(gradient, velocity, {0.1F, 0.9F, 0.01F, nesterov});
        for (std::size_t i = 0; i < size; ++i) {
          const double g = gradient[i] + 0.01 * x_expected[i];
          v_expected[i] = 0.9 * v_expected[i] + g;
          x_expected[i] -= 0.1 * (nesterov ? g + 0.9 * v_expected[i] : v_expected[i]);
        }
      }
      x = contents(arena);
      for (std::size_t i = 0; i < size; ++i) {
        REQUIRE(close(x[i], x_expected[i]));
        REQUIRE(close(velocity[i], v_expected[i]));
      }
    }
  }
}

TEST_CASE("AdamW follows Adam's formulas, with separate weight decay", "[arena]") {
  Random random(36);
  constexpr std::size_t kSize = 77;
  const Arena::AdamWStep step{
      .learning_rate = 0.01F, .beta1 = 0.8F, .beta2 = 0.97F, .epsilon = 1e-6F, .weight_decay = 0.1F};
  Arena arena(kSize);
  const std::vector<float> begin = draw(random, kSize);
  arena.write(0, begin);
  std::vector<double> x(begin.begin(), begin.end()), m(kSize), v(kSize);
  std::vector<float> mean(kSize), square(kSize);
  for (std::uint64_t t = 1; t <= 20; ++t) {
    std::vector<float> gradient = draw(random, kSize);
    gradient[3] = 0;
    arena.adamw(gradient, mean, square, step, t);
    for (std::size_t i = 0; i < kSize; ++i) {
      const double g = gradient[i];
      m[i] = 0.8 * m[i] + 0.2 * g;
      v[i] = 0.97 * v[i] + 0.03 * g * g;
      const double corrected_m = m[i] / (1 - std::pow(0.8, t)), corrected_v = v[i] / (1 - std::pow(0.97, t));
      x[i] -= 0.01 * (corrected_m / (std::sqrt(corrected_v) + 1e-6) + 0.1 * x[i]);
      REQUIRE(close(mean[i], m[i]));
      REQUIRE(close(square[i], v[i]));
    }
  }
  const auto after = contents(arena);
  for (std::size_t i = 0; i < kSize; ++i) REQUIRE(std::abs(double{after[i]} - x[i]) < 1e-5);
}

TEST_CASE("AdamW's weight decay leaves the blocks alone that do not decay", "[arena]") {
  Random random(38);
  for (const std::size_t size : {16U, 33U, 3000U}) {
    const std::vector<float> start = draw(random, size), gradient = draw(random, size);
    std::vector<std::uint8_t> decays((size + kernels::kDecayBlock - 1) / kernels::kDecayBlock);
    for (auto& decay : decays) decay = random.chance(0.5) ? 1 : 0;
    const auto stepped = [&](const Arena::AdamWStep& step) {
      Arena arena(size);
      arena.write(0, start);
      std::vector<float> mean(size), square(size);
      arena.adamw(gradient, mean, square, step, 1);
      return contents(arena);
    };
    const auto some = stepped({.learning_rate = 0.1F, .weight_decay = 0.5F, .decays = decays.data()});
    const auto all = stepped({.learning_rate = 0.1F, .weight_decay = 0.5F});
    const auto none = stepped({.learning_rate = 0.1F});
    for (std::size_t i = 0; i < size; ++i) {
      REQUIRE(some[i] == (decays[i / kernels::kDecayBlock] != 0 ? all : none)[i]);
      REQUIRE(close(all[i], double{none[i]} - 0.1 * 0.5 * double{start[i]}));
    }
  }
}

TEST_CASE("clipping scales a gradient that is longer than the limit to that length", "[arena]") {
  Random random(39);
  for (const std::size_t size : {1U, 16U, 63U, 64U, 65U, 519U, 20'000U}) {
    for (const double length : {1e-30, 1e-3, 1.0, 50.0, 1e25}) {
      std::vector<float> gradient = draw(random, size);
      for (float& g : gradient) g = static_cast<float>(length * double{g});
      double squares = 0;
      for (const float g : gradient) squares += double{g} * double{g};
      const double norm = std::sqrt(squares);
      const Arena arena(size);
      for (const float limit : {0.5F, 2.0F}) {
        INFO(size << " floats, norm " << norm << ", limit " << limit);
        Arena::Clip clip;
        arena.clip(gradient, limit, &clip);
        const double expected = std::min(1.0, double{limit} / (norm + 1e-6));
        CHECK(std::abs(double{clip.gain} - expected) <= 1e-6 * expected);
        if (norm < double{limit} - 1e-5) CHECK(clip.gain == 1);
        const float first = clip.gain;
        arena.clip(gradient, limit, &clip);
        CHECK(clip.gain == first);
      }
    }
  }
}

TEST_CASE("clipping leaves a gradient that is not finite as it is", "[arena]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  const Arena arena(100);
  for (const float bad : {nan, infinity, -infinity}) {
    for (const std::size_t place : {0U, 70U, 99U}) {
      std::vector<float> gradient(100, 3.0F);
      gradient[place] = bad;
      Arena::Clip clip;
      arena.clip(gradient, 1, &clip);
      CHECK(clip.gain == 1);
    }
  }
}

TEST_CASE("every step uses the gradient times the gain", "[arena]") {
  Random random(40);
  constexpr std::size_t kSize = 2500;
  const float gain = 0.3F;
  const std::vector<float> start = draw(random, kSize), gradient = draw(random, kSize),
                           velocity = draw(random, kSize);
  std::vector<float> scaled = gradient;
  for (float& g : scaled) g *= gain;
  const std::vector<std::function<void(Arena&, const std::vector<float>&, const float*)>> steps{
      [&](Arena& arena, const std::vector<float>& g, const float* factor) {
        auto v = velocity;
        arena.sgd(g, v, {.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F, .gain = factor});
      },
      [&](Arena& arena, const std::vector<float>& g, const float* factor) {
        arena.sgd_along(g, velocity, {.learning_rate = 0.1F, .momentum = 0.9F, .gain = factor});
      },
      [&](Arena& arena, const std::vector<float>& g, const float* factor) {
        std::vector<float> mean(kSize), square(kSize);
        arena.adamw(g, mean, square, {.learning_rate = 0.1F, .epsilon = 1, .gain = factor}, 1);
      }};
  for (const auto& step : steps) {
    Arena with(kSize), expected(kSize);
    with.write(0, start);
    expected.write(0, start);
    step(with, gradient, &gain);
    step(expected, scaled, nullptr);
    CHECK(contents(with) == contents(expected));
    CHECK(contents(with) != start);
  }
}

TEST_CASE("atomic additions by many threads lose nothing", "[arena]") {
  constexpr int kThreads = 4, kRounds = 500;
  constexpr std::size_t kSize = 67;
  Arena arena(kSize);
  const std::vector<float> one(kSize, 1.0F);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) arena.atomic_add(0, one);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const float value : contents(arena)) REQUIRE(value == kThreads * kRounds);
}

// Under ThreadSanitizer this also tests that the intended races are confined: it must report none of them.
TEST_CASE("every pass may race with every other pass, and a float is never torn", "[arena]") {
  constexpr std::size_t kSize = 1000;
  constexpr int kRounds = 300;
  Arena arena(kSize);
  const std::vector<float> one(kSize, 1.0F);
  arena.write(0, one);
  // Every thread keeps each element at 1 or sets it to 1 again, so every value read must be exactly 1.
  const std::vector<std::function<void()>> passes{[&] {
                                                    std::vector<float> seen(kSize);
                                                    arena.read(0, seen);
                                                    for (const float value : seen) {
                                                      if (value != 1.0F) std::abort();
                                                    }
                                                  },
                                                  [&] { arena.write(0, one); },
                                                  [&] {
                                                    const std::vector<float> zero(kSize, 0.0F);
                                                    arena.add(0, zero);
                                                  },
                                                  [&] {
                                                    const std::vector<std::uint32_t> places{0, 5, 999};
                                                    std::vector<float> mixed(3);
                                                    const auto some = std::span(one).first(3);
                                                    arena.mix_at(0, places, some, some, 0.5F, mixed);
                                                  },
                                                  [&] {
                                                    const std::vector<float> zero(kSize, 0.0F);
                                                    arena.sgd_along(zero, zero, {0.1F, 0.9F});
                                                  },
                                                  [&] {
                                                    std::vector<float> velocity(kSize, 0.0F),
                                                        last(kSize, 1.0F);
                                                    arena.follow(velocity, last, 0.5F, 1.0F);
                                                  },
                                                  [&] { arena.mix(0, one, one, 0.5F); },
                                                  [&] {
                                                    std::vector<float> velocity(kSize, 0.0F);
                                                    const std::vector<float> gradient(kSize, 0.0F);
                                                    arena.sgd(gradient, velocity, {0.1F, 0.9F});
                                                  }};
  std::vector<std::thread> threads;
  for (const auto& pass : passes) {
    threads.emplace_back([&pass] {
      for (int i = 0; i < kRounds; ++i) pass();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(contents(arena) == one);
}

}  // namespace starling::models
