// bfloat16: the number, and the back end that multiplies it.
#include <bit>
#include <cmath>
#include <limits>

#include "base/bfloat16.h"
#include "kernels/backends.h"
#include "kernels/cpu/backend.h"
#include "kernels/cpu/onednn/version.h"
#include "tests/catch.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/near.h"
#include "tests/kernels/problems.h"

namespace starling::kernels {
namespace {

// The ways in which the cpu back end may compute, where the processor can, and a GPU, where there is one.
std::vector<std::unique_ptr<Backend>> bf16_candidates() {
  std::vector<std::unique_ptr<Backend>> list;
  if (auto gpu = gpu_backend(Precision::bf16)) list.push_back(std::move(gpu));
  if (!cpu::has_bf16()) {
    WARN("skipped on the processor: it has no arithmetic for bfloat16");
    return list;
  }
  for (const auto choice : {cpu::Choice::automatic, cpu::Choice::onednn}) {
    list.push_back(cpu::make_backend(Precision::bf16, choice));
  }
  return list;
}

void round_all(std::vector<float>& values) {
  for (float& value : values) value = Bfloat16::round(value).value();
}

// Of values that bfloat16 holds exactly, so are products and (but for the order of adding) sums: only what is
// stored in bfloat16 is rounded, by at most 2^-9 of itself.
void round_all(Problem& problem) {
  round_all(problem.x);
  round_all(problem.dy);
  round_all(problem.parameters);
}

// Within `rounding` of each value and a few last places of the largest float sum.
void check_rounded(const std::vector<float>& actual, const std::vector<float>& expected, double rounding) {
  REQUIRE(actual.size() == expected.size());
  double scale = 1e-3;
  for (const float value : expected) scale = std::max(scale, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double off = std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
    if (off <= rounding * std::abs(static_cast<double>(expected[i])) + 3e-5 * scale) continue;
    FAIL("element " << i << " of " << actual.size() << " is " << actual[i] << ", not " << expected[i]);
  }
}

// How far apart two vectors are, relative to the second's length.
double distance(const std::vector<float>& actual, const std::vector<float>& expected) {
  double off = 0, length = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto a = static_cast<double>(actual[i]), b = static_cast<double>(expected[i]);
    off += (a - b) * (a - b);
    length += b * b;
  }
  return std::sqrt(off / std::max(length, 1e-12));
}

// The host rounds what it stores, once. A GPU's libraries store before a bias is added, and round a
// convolution's gradient: it is held to a part of the whole. A ReLU that decides otherwise about a value which
// is nearly 0 passes its gradient or holds it back.
void check_rounded(const Backend& on, const std::vector<float>& actual, const std::vector<float>& expected,
                   double rounding, bool behind_relu = false) {
  if (on.memory().on_host()) return check_rounded(actual, expected, rounding);
  REQUIRE(actual.size() == expected.size());
  CHECK(distance(actual, expected) < (behind_relu ? 0.1 : 1e-2));
}

}  // namespace

TEST_CASE("bfloat16 is the nearest of its numbers, ties to even") {
  Random random(61);
  for (int round = 0; round < 20'000; ++round) {
    const auto bits = static_cast<std::uint32_t>(random.bits());
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value) || std::abs(value) > 3.3e38F) continue;
    // Its neighbors below and above in magnitude, and which of them is nearer.
    const float down = std::bit_cast<float>(bits & 0xffff0000U),
                up = std::bit_cast<float>((bits & 0xffff0000U) + 0x10000U);
    const double to_down = std::abs(static_cast<double>(value) - static_cast<double>(down));
    const double to_up = std::abs(static_cast<double>(up) - static_cast<double>(value));
    const bool even = ((bits >> 16) & 1) == 0;
    const float expected = to_down < to_up || (to_down == to_up && even) ? down : up;
    if (Bfloat16::round(value).value() != expected)
      FAIL(value << " became " << Bfloat16::round(value).value());
  }
  CHECK(Bfloat16::round(1.0F + 0x1p-8F).value() == 1.0F);             // halfway, to the even one
  CHECK(Bfloat16::round(1.0F + 3 * 0x1p-8F).value() == 1 + 0x1p-6F);  // and here up
  CHECK(Bfloat16::round(std::numeric_limits<float>::max()).value() == std::numeric_limits<float>::infinity());
  CHECK(Bfloat16::round(-std::numeric_limits<float>::infinity()).value() ==
        -std::numeric_limits<float>::infinity());
  for (const std::uint32_t nan : {0x7f800001U, 0x7fffffffU, 0xffffffffU, 0xff800001U})
    CHECK(std::isnan(Bfloat16::round(std::bit_cast<float>(nan)).value()));
}

TEST_CASE("A back end is refused where it has no bfloat16, with what would be right") {
  const auto reference = make_backend("reference", Precision::bf16);
  REQUIRE(!reference.ok());
  CHECK(reference.error().message == "the reference back end computes in f32 precision alone");
  const auto cpu = make_backend("cpu", Precision::bf16);
  CHECK(cpu.ok() == cpu::has_bf16());
  if (!cpu.ok()) CHECK(cpu.error().message.find("AVX512-BF16 or AMX") != std::string::npos);
}

TEST_CASE("Convolutions of bfloat16 round nothing but what they store") {
  Random random(62);
  const auto candidates = bf16_candidates();
  for (int round = 0; round < 150; ++round) {
    const int kernel = between(random, 1, 5), stride = between(random, 1, 3),
              padding = between(random, 0, kernel - 1);
    // Whole tiles, even numbers (tiles too), and others.
    const int kind = round % 3;
    const int channels = kind == 0   ? 16 * between(random, 1, 5)
                         : kind == 1 ? 2 * between(random, 4, 40)
                                     : between(random, 1, 21);
    const int out = kind == 0   ? 16 * between(random, 1, 5)
                    : kind == 1 ? 2 * between(random, 4, 40)
                                : between(random, 1, 26);
    Problem problem = images_problem(random, channels, between(random, kernel, 9), between(random, kernel, 9),
                                     random.chance(0.3));
    problem.stored.batch = between(random, 1, 70);
    problem.x = random_values(random, problem.stored.size());
    const Shape in{problem.stored.batch, channels, problem.height, problem.width};
    problem.specs.push_back(
        convolution(random, problem, in, out, kernel, stride, padding, 1, random.chance(0.5)));
    const bool relu = random.chance(0.4);
    if (relu) problem.specs.push_back(Relu{});
    finish(random, problem);
    round_all(problem);
    INFO("round " << round << ", kernel " << kernel << ", stride " << stride << ", padding " << padding
                  << ", " << channels << " to " << out << " channels, " << in.height << "x" << in.width
                  << ", batch " << in.batch << ", relu " << relu);
    const bool input_gradient = random.chance(0.7);
    const Outcome expected = run(*backend("reference"), problem, input_gradient, false);
    int candidate = 0;
    for (const auto& on : candidates) {
      INFO("candidate " << candidate++);
      const Outcome actual = run(*on, problem, input_gradient);
      REQUIRE(actual.shape == expected.shape);
      check_rounded(*on, actual.y, expected.y, 0x1p-8);
      check_rounded(*on, actual.gradient, expected.gradient, 0, relu);
      if (input_gradient) check_rounded(*on, actual.dx, expected.dx, 0x1p-8, relu);
      check_rounded(*on, evaluate(*on, problem), expected.y, 0x1p-8);
    }
  }
}

TEST_CASE("Linear layers of bfloat16 round nothing but what they store, and logits not at all") {
  Random random(63);
  const auto candidates = bf16_candidates();
  for (int round = 0; round < 60; ++round) {
    Problem problem =
        images_problem(random, between(random, 1, 40), between(random, 1, 4), between(random, 1, 4), false);
    const Shape in{problem.stored.batch, problem.stored.channels, problem.height, problem.width};
    problem.specs.push_back(linear(random, problem, in, between(random, 1, 70)));
    const bool relu = random.chance(0.5);
    if (relu) problem.specs.push_back(Relu{});
    INFO("round " << round << ", " << in.sample_size() << " features, batch " << in.batch << ", relu "
                  << relu);
    finish(random, problem);
    round_all(problem);
    const Outcome expected = run(*backend("reference"), problem, true, false);
    for (const auto& on : candidates) {
      const Outcome actual = run(*on, problem, true);
      check_rounded(*on, actual.y, expected.y, relu ? 0x1p-8 : 0);
      check_rounded(*on, actual.gradient, expected.gradient, 0, relu);
      check_rounded(*on, actual.dx, expected.dx, 0x1p-8, relu);
    }
  }
}

TEST_CASE(
    "Pools of bfloat16 and the way from lanes into stacks do as the reference, on values that all of them "
    "hold") {
  Random random(65);
  const auto candidates = bf16_candidates();
  for (int round = 0; round < 40; ++round) {
    // A first layer of few channels without padding goes in lanes; behind it a convolution that copies
    // channels: its inputs, and what the pools behind it see, are exact.
    const int size = between(random, 1, 3), channels = 2 * between(random, 4, 20);
    const int extent = size * between(random, 1, 4) + between(random, 0, size - 1);
    Problem problem = images_problem(random, between(random, 1, 3), extent, extent, random.chance(0.3));
    problem.stored.batch = between(random, 1, 40);
    problem.x = random_values(random, problem.stored.size());
    const Shape in{problem.stored.batch, problem.stored.channels, extent, extent};
    const Shape inside{in.batch, channels, extent, extent};
    problem.specs = {convolution(random, problem, in, channels, 1, 1, 0),
                     convolution(random, problem, inside, channels, 1, 1, 0)};
    const auto& first = std::get<Convolution>(problem.specs[0]);
    const auto& second = std::get<Convolution>(problem.specs[1]);
    const auto c = static_cast<std::size_t>(channels), few = static_cast<std::size_t>(in.channels);
    const auto one_hot = [&](const Convolution& spec, std::size_t inputs) {
      for (std::size_t o = 0; o < c; ++o) {
        problem.parameters[spec.bias + o] = 0;
        for (std::size_t i = 0; i < inputs; ++i)
          problem.parameters[spec.weight + o * inputs + i] = i == o % inputs ? 1 : 0;
      }
    };
    one_hot(first, few);
    one_hot(second, c);
    if (round % 2 == 0) problem.specs.push_back(MaxPool{size});
    if (round % 2 == 1) problem.specs.push_back(AveragePool{size});
    finish(random, problem);
    round_all(problem);
    INFO("round " << round << ", size " << size << ", extent " << extent << ", " << in.channels << " to "
                  << channels << " channels, batch " << in.batch);
    const Outcome expected = run(*backend("reference"), problem, true, false);
    for (const auto& on : candidates) {
      const Outcome actual = run(*on, problem, true);
      check_rounded(*on, actual.y, expected.y, 0x1p-8);
      // What a pool hands back is rounded before it is added up.
      CHECK(distance(actual.dx, expected.dx) < 0x1p-7);
      CHECK(distance(actual.gradient, expected.gradient) < 0x1p-7);
    }
  }
}

TEST_CASE("Networks of bfloat16 stay near float32's, whatever formats lie between") {
  Random random(64);
  const auto candidates = bf16_candidates();
  for (int round = 0; round < 80; ++round) {
    RandomNetwork network(random, 4, 40);
    auto& [problem, shape, text] = network;
    const int length = between(random, 2, 6);
    for (int i = 0; i < length; ++i) {
      const int kind = between(random, 0, 8);
      if (kind < 3) {
        const int kernel = shape.height > 2 && random.chance(0.7) ? 3 : 1;
        const int out = random.chance(0.7) ? 16 * between(random, 1, 4) : 2 * between(random, 2, 20);
        network.add(convolution(random, problem, shape, out, kernel, between(random, 1, 2), kernel / 2, 1,
                                random.chance(0.3)),
                    "convolution ");
      } else if (kind < 7) {
        network.add_shape_keeper(random, kind - 3);
      } else if (shape.height % 2 == 0 && shape.width % 2 == 0) {
        if (kind == 7) network.add(AveragePool{2}, "average pool ");
        if (kind == 8) network.add(MaxPool{2}, "max pool ");
      }
    }
    // Of normalized values a mean would leave nothing but rounding errors.
    const bool normalized =
        !problem.specs.empty() && (std::holds_alternative<GroupNorm>(problem.specs.back()) ||
                                   std::holds_alternative<BatchNorm>(problem.specs.back()));
    if (!normalized && random.chance(0.5)) network.add(GlobalAveragePool{}, "global pool ");
    network.add(linear(random, problem, shape, between(random, 1, 20)), "linear");
    INFO("round " << round << ": " << text << ", batch " << shape.batch);
    finish(random, problem);
    const Outcome expected = run(*backend("reference"), problem, true, false);
    int candidate = 0;
    for (const auto& on : candidates) {
      INFO("candidate " << candidate++);
      const Outcome actual = run(*on, problem, true);
      REQUIRE(actual.shape == expected.shape);
      CHECK(distance(actual.y, expected.y) < 0.03);
      // A ReLU or a pool that decides otherwise about one value passes its whole gradient elsewhere.
      CHECK(distance(actual.gradient, expected.gradient) < 0.15);
      CHECK(distance(actual.dx, expected.dx) < 0.35);
    }
  }
}

}  // namespace starling::kernels
