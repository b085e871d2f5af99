// Each pass of the arena against its definition, at lengths and offsets that fill no vector, and under
// threads.
#include "models/arena.h"

#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"

namespace starling::models {
namespace {

std::vector<float> draw(Random& random, std::size_t n) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

bool close(float a, double b) {
  return std::abs(a - b) < 1e-6;
}

std::vector<float> contents(const Arena& arena) {
  std::vector<float> values(arena.size());
  arena.read(0, values);
  return values;
}

// Calls `pass(arena, offset, n)` at many places and checks that each element inside is `expected(i, before)`,
// and that none outside changed.
void check_pass(const std::function<void(Arena&, std::size_t, std::size_t)>& pass,
                const std::function<double(std::size_t, float)>& expected) {
  Random random(31);
  for (const std::size_t n : {0, 1, 3, 7, 8, 15, 16, 17, 31, 64, 100}) {
    for (const std::size_t offset : {0, 1, 5, 16, 27}) {
      Arena arena(128);
      const std::vector<float> before = draw(random, 128);
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

TEST_CASE("An arena begins at zero and on a cache line", "[arena]") {
  const Arena arena(1000);
  REQUIRE(arena.size() == 1000);
  CHECK(reinterpret_cast<std::uintptr_t>(arena.data()) % 64 == 0);
  for (const float value : contents(arena)) REQUIRE(value == 0.0F);
}

TEST_CASE("What is written to an arena is read back, from any place", "[arena]") {
  Random random(30);
  const std::vector<float> values = draw(random, 100);
  check_pass(
      [&](Arena& arena, std::size_t at, std::size_t n) { arena.write(at, std::span(values).first(n)); },
      [&](std::size_t i, float) { return values[i]; });
  Arena arena(50);
  arena.write(7, std::span(values).first(43));
  std::vector<float> part(20);
  arena.read(10, part);
  CHECK(part == std::vector<float>(values.begin() + 3, values.begin() + 23));
}

TEST_CASE("Both additions add", "[arena]") {
  Random random(32);
  const std::vector<float> delta = draw(random, 100);
  const auto sum = [&](std::size_t i, float x) { return static_cast<double>(x) + delta[i]; };
  check_pass([&](Arena& arena, std::size_t at, std::size_t n) { arena.add(at, std::span(delta).first(n)); },
             sum);
  check_pass(
      [&](Arena& arena, std::size_t at, std::size_t n) { arena.atomic_add(at, std::span(delta).first(n)); },
      sum);
}

TEST_CASE("Mixing moves by the weighted difference of the two vectors that travelled", "[arena]") {
  Random random(33);
  const std::vector<float> theirs = draw(random, 100), mine = draw(random, 100);
  check_pass(
      [&](Arena& arena, std::size_t at, std::size_t n) {
        arena.mix(at, std::span(theirs).first(n), std::span(mine).first(n), 0.3F);
      },
      [&](std::size_t i, float x) { return x + 0.3 * (theirs[i] - mine[i]); });
}

TEST_CASE("Swap-and-mix lends out what it mixed with", "[arena]") {
  Random random(34);
  const std::vector<float> theirs = draw(random, 100);
  std::vector<float> own(100);
  check_pass(
      [&](Arena& arena, std::size_t at, std::size_t n) {
        std::vector<float> before(n);
        arena.read(at, before);
        arena.swap_and_mix(at, std::span(theirs).first(n), 0.3F, std::span(own).first(n));
        REQUIRE(std::vector<float>(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(n)) == before);
      },
      [&](std::size_t i, float x) { return x + 0.3 * (theirs[i] - x); });
}

TEST_CASE("Two arenas that mix with each other's answer keep their sum", "[arena]") {
  Random random(35);
  const std::vector<float> a0 = draw(random, 77), b0 = draw(random, 77);
  Arena a(77), b(77);
  a.write(0, a0);
  b.write(0, b0);
  std::vector<float> lent_by_b(77);
  b.swap_and_mix(0, a0, 0.4F, lent_by_b);
  a.mix(0, lent_by_b, a0, 0.4F);
  const std::vector<float> a1 = contents(a), b1 = contents(b);
  for (std::size_t i = 0; i < 77; ++i) {
    REQUIRE(close(a1[i] + b1[i], static_cast<double>(a0[i]) + b0[i]));
    REQUIRE(close(a1[i], a0[i] + 0.4 * (b0[i] - a0[i])));
  }
}

TEST_CASE("A peer that has lent half answers with twice what it has, less what it lent", "[arena]") {
  Random random(36);
  const std::vector<float> theirs = draw(random, 100), lent = draw(random, 100);
  std::vector<float> own(100);
  check_pass(
      [&](Arena& arena, std::size_t at, std::size_t n) {
        std::vector<float> before(n);
        arena.read(at, before);
        const std::span<const float> t(theirs), l(lent);
        arena.swap_and_mix_free_half(at, t.first(n), l.first(n), 0.25F, std::span(own).first(n));
        for (std::size_t i = 0; i < n; ++i) REQUIRE(close(own[i], 2.0 * before[i] - lent[i]));
      },
      [&](std::size_t i, float x) { return x + 0.25 * (theirs[i] - (2.0 * x - lent[i])); });
}

TEST_CASE("The fused SGD pass is momentum, weight decay and Nesterov's look-ahead by their formulas",
          "[arena]") {
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

TEST_CASE("Atomic additions of many threads lose nothing", "[arena]") {
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

// Under ThreadSanitizer this is also the test that the wanted races are confined: it must report none of
// them.
TEST_CASE("Every pass may race with every other, and a float is never torn", "[arena]") {
  constexpr std::size_t kSize = 1000;
  constexpr int kRounds = 300;
  Arena arena(kSize);
  const std::vector<float> one(kSize, 1.0F);
  arena.write(0, one);
  // Every thread keeps each element at 1 or puts it there again, so whatever is read must be exactly that.
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
                                                    std::vector<float> own(kSize);
                                                    arena.swap_and_mix(0, one, 0.5F, own);
                                                  },
                                                  [&] {
                                                    std::vector<float> own(kSize);
                                                    arena.swap_and_mix_free_half(0, one, one, 0.5F, own);
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
