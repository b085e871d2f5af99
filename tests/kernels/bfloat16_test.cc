// bfloat16: the type, and back ends that compute in it.
#include <bit>
#include <cmath>
#include <limits>

#include "base/bfloat16.h"
#include "kernels/by_name/backends.h"
#include "kernels/cpu/backend.h"
#include "kernels/cpu/onednn/version.h"
#include "tests/catch.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/near.h"
#include "tests/kernels/problems.h"
#include "tests/seeds.h"

namespace starling::kernels {
namespace {

// The modes of the cpu back end that the processor supports, and a GPU if there is one.
std::vector<std::unique_ptr<Backend>> bf16_candidates() {
  std::vector<std::unique_ptr<Backend>> list;
  if (auto gpu = gpu_backend(Precision::bf16)) list.push_back(std::move(gpu));
  if (!cpu::has_bf16()) {
    WARN("skipped on the CPU: no bfloat16 arithmetic");
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

// For values that bfloat16 represents exactly, products and (up to the order) sums are exact: only stored
// bfloat16 values are rounded, with a relative error of at most 2^-9.
void round_all(Problem& problem) {
  round_all(problem.x);
  round_all(problem.dy);
  round_all(problem.parameters);
}

// Within `rounding` of each value plus a few units in the last place of the largest sum.
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

// The distance of two vectors relative to the length of the second.
double distance(const std::vector<float>& actual, const std::vector<float>& expected) {
  double off = 0, length = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto a = static_cast<double>(actual[i]), b = static_cast<double>(expected[i]);
    off += (a - b) * (a - b);
    length += b * b;
  }
  return std::sqrt(off / std::max(length, 1e-12));
}

// The largest distances of a back end's results from the reference's.
struct Distances {
  double y, gradient, dx;
};
void check_close(const std::vector<std::unique_ptr<Backend>>& candidates, const Problem& problem,
                 const Distances& most) {
  const Outcome expected = run(*backend("reference"), problem, true, false);
  int candidate = 0;
  for (const auto& on : candidates) {
    INFO("candidate " << candidate++);
    const Outcome actual = run(*on, problem, true);
    REQUIRE(actual.shape == expected.shape);
    CHECK(distance(actual.y, expected.y) < most.y);
    CHECK(distance(actual.gradient, expected.gradient) < most.gradient);
    CHECK(distance(actual.dx, expected.dx) < most.dx);
  }
}

// The host rounds stored values once. A GPU's libraries store before adding a bias and round a convolution's
// gradient, so its tolerance is relative to the whole vector. A ReLU may decide differently for a value near
// 0, and then passes or blocks its gradient.
void check_rounded(const Backend& on, const std::vector<float>& actual, const std::vector<float>& expected,
                   double rounding, bool behind_relu = false) {
  if (on.memory().on_host()) return check_rounded(actual, expected, rounding);
  REQUIRE(actual.size() == expected.size());
  CHECK(distance(actual, expected) < (behind_relu ? 0.1 : 1e-2));
}

}  // namespace

TEST_CASE("bfloat16 rounds to nearest, ties to even") {
  Random random(61);
  for (int round = 0; round < 20'000; ++round) {
    const auto bits = static_cast<std::uint32_t>(random.bits());
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value) || std::abs(value) > 3.3e38F) continue;
    // The neighbors below and above in magnitude; the nearer one is expected.
    const float down = std::bit_cast<float>(bits & 0xffff0000U),
                up = std::bit_cast<float>((bits & 0xffff0000U) + 0x10000U);
    const double to_down = std::abs(static_cast<double>(value) - static_cast<double>(down));
    const double to_up = std::abs(static_cast<double>(up) - static_cast<double>(value));
    const bool even = ((bits >> 16) & 1) == 0;
    const float expected = to_down < to_up || (to_down == to_up && even) ? down : up;
    if (Bfloat16::round(value).value() != expected)
      FAIL(value << " became " << Bfloat16::round(value).value());
  }
  CHECK(Bfloat16::round(1.0F + 0x1p-8F).value() == 1.0F);             // halfway: to even
  CHECK(Bfloat16::round(1.0F + 3 * 0x1p-8F).value() == 1 + 0x1p-6F);  // here upward
  CHECK(Bfloat16::round(std::numeric_limits<float>::max()).value() == std::numeric_limits<float>::infinity());
  CHECK(Bfloat16::round(-std::numeric_limits<float>::infinity()).value() ==
        -std::numeric_limits<float>::infinity());
  for (const std::uint32_t nan : {0x7f800001U, 0x7fffffffU, 0xffffffffU, 0xff800001U})
    CHECK(std::isnan(Bfloat16::round(std::bit_cast<float>(nan)).value()));
}

TEST_CASE("a back end without bfloat16 is rejected with an explanation") {
  const auto reference = make_backend("reference", Precision::bf16);
  REQUIRE(!reference.ok());
  CHECK(reference.error().message == "the reference back end has only f32 precision");
  const auto cpu = make_backend("cpu", Precision::bf16);
  CHECK(cpu.ok() == cpu::has_bf16());
  if (!cpu.ok()) CHECK(cpu.error().message.find("AVX512-BF16 or AMX") != std::string::npos);
}

TEST_CASE("bfloat16 convolutions round only stored values", "[figures]") {
  Random random(62);
  const auto candidates = bf16_candidates();
  const int rounds = static_cast<int>(seeds(150, 45));
  for (int round = 0; round < rounds; ++round) {
    const int kernel = between(random, 1, 5), stride = between(random, 1, 3),
              padding = between(random, 0, kernel - 1);
    // Whole tiles, even numbers (also tiles), and others.
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
    if (relu) problem.specs.push_back(ReluSpec{});
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

TEST_CASE("bfloat16 linear layers round only stored values, and do not round logits", "[figures]") {
  Random random(63);
  const auto candidates = bf16_candidates();
  for (int round = 0; round < 60; ++round) {
    Problem problem =
        images_problem(random, between(random, 1, 40), between(random, 1, 4), between(random, 1, 4), false);
    const Shape in{problem.stored.batch, problem.stored.channels, problem.height, problem.width};
    problem.specs.push_back(linear(random, problem, in, between(random, 1, 70)));
    const bool relu = random.chance(0.5);
    if (relu) problem.specs.push_back(ReluSpec{});
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

TEST_CASE("bfloat16 pools and conversions from lanes to stacks agree with the reference on exact values") {
  Random random(65);
  const auto candidates = bf16_candidates();
  for (int round = 0; round < 40; ++round) {
    // A first layer with few channels and no padding uses lanes; the following convolution copies channels.
    // Its inputs, and those of the following pools, are exact.
    const int size = between(random, 1, 3), channels = 2 * between(random, 4, 20);
    const int extent = size * between(random, 1, 4) + between(random, 0, size - 1);
    Problem problem = images_problem(random, between(random, 1, 3), extent, extent, random.chance(0.3));
    problem.stored.batch = between(random, 1, 40);
    problem.x = random_values(random, problem.stored.size());
    const Shape in{problem.stored.batch, problem.stored.channels, extent, extent};
    const Shape inside{in.batch, channels, extent, extent};
    problem.specs = {convolution(random, problem, in, channels, 1, 1, 0),
                     convolution(random, problem, inside, channels, 1, 1, 0)};
    const auto& first = std::get<ConvolutionSpec>(problem.specs[0]);
    const auto& second = std::get<ConvolutionSpec>(problem.specs[1]);
    const auto c = static_cast<std::size_t>(channels), few = static_cast<std::size_t>(in.channels);
    const auto one_hot = [&](const ConvolutionSpec& spec, std::size_t inputs) {
      for (std::size_t o = 0; o < c; ++o) {
        problem.parameters[spec.bias + o] = 0;
        for (std::size_t i = 0; i < inputs; ++i)
          problem.parameters[spec.weight + o * inputs + i] = i == o % inputs ? 1 : 0;
      }
    };
    one_hot(first, few);
    one_hot(second, c);
    if (round % 2 == 0) problem.specs.push_back(MaxPoolSpec{size});
    if (round % 2 == 1) problem.specs.push_back(AveragePoolSpec{size});
    finish(random, problem);
    round_all(problem);
    INFO("round " << round << ", size " << size << ", extent " << extent << ", " << in.channels << " to "
                  << channels << " channels, batch " << in.batch);
    const Outcome expected = run(*backend("reference"), problem, true, false);
    for (const auto& on : candidates) {
      const Outcome actual = run(*on, problem, true);
      check_rounded(*on, actual.y, expected.y, 0x1p-8);
      // A pool's gradient is rounded before it is accumulated.
      CHECK(distance(actual.dx, expected.dx) < 0x1p-7);
      CHECK(distance(actual.gradient, expected.gradient) < 0x1p-7);
    }
  }
}

TEST_CASE("bfloat16 networks stay close to float32 for any formats") {
  Random random(64);
  const auto candidates = bf16_candidates();
  const int rounds = static_cast<int>(seeds(80));
  for (int round = 0; round < rounds; ++round) {
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
        if (kind == 7) network.add(AveragePoolSpec{2}, "average pool ");
        if (kind == 8) network.add(MaxPoolSpec{2}, "max pool ");
      }
    }
    // The mean of normalized values would be only rounding errors.
    const bool normalized =
        !problem.specs.empty() && (std::holds_alternative<GroupNormSpec>(problem.specs.back()) ||
                                   std::holds_alternative<BatchNormSpec>(problem.specs.back()));
    if (!normalized && random.chance(0.5)) network.add(GlobalAveragePoolSpec{}, "global pool ");
    network.add(linear(random, problem, shape, between(random, 1, 20)), "linear");
    INFO("round " << round << ": " << text << ", batch " << shape.batch);
    finish(random, problem);
    // A ReLU or a pool that decides differently for one value moves its whole gradient.
    check_close(candidates, problem, {.y = 0.03, .gradient = 0.15, .dx = 0.35});
  }
}

TEST_CASE("bfloat16 layers for sequences stay close to float32") {
  Random random(66);
  const auto candidates = bf16_candidates();
  for (int round = 0; round < 24; ++round) {
    const int context = between(random, 1, 70), groups = between(random, 1, 2),
              heads = groups * between(random, 1, 2);
    const int size = round % 2 == 0 ? 16 * between(random, 1, 4) : 2 * between(random, 1, 20),
              channels = (heads + 2 * groups) * size;
    Problem problem;
    problem.height = problem.width = 1;
    problem.stored = {context * between(random, 1, 3), channels, 1, 1};
    problem.x = random_values(random, problem.stored.size());
    const auto place = add_norm_parameters(random, problem.parameters, static_cast<std::size_t>(channels));
    if (round % 3 == 0) problem.specs.push_back(RmsNormSpec{place.scale, 1e-2F});
    if (round % 3 == 1) problem.specs.push_back(GroupNormSpec{1, place.scale, kNone, 1e-2F});
    problem.specs.push_back(AttentionSpec{context, heads, groups, round % 2 == 0 ? 10'000.0F : 0.0F,
                                          round % 4 == 0 ? 0.2F : 0.0F, random.bits()});
    if (round % 3 == 1) problem.specs.push_back(SwigluSpec{});
    if (round % 3 == 2) problem.specs.push_back(GeluSpec{true});
    Shape shape = problem.stored;
    for (const OperationSpec& spec : problem.specs) shape = output_shape(spec, shape);
    problem.specs.push_back(linear(random, problem, shape, between(random, 1, 20)));
    problem.specs.push_back(DropoutSpec{0.1F, random.bits()});
    INFO("round " << round << ", context " << context << ", " << heads << " heads, " << groups
                  << " groups of " << size);
    finish(random, problem);
    check_close(candidates, problem, {.y = 0.02, .gradient = 0.02, .dx = 0.03});
  }
}

TEST_CASE("bfloat16 attention with heads of usual sizes stays close to float32") {
  Random random(67);
  const auto candidates = bf16_candidates();
  for (const int size : {16, 32, 64, 128}) {
    for (const bool plain : {false, true}) {
      const int context = plain ? 64 : between(random, 65, 150);
      Problem problem;
      problem.height = problem.width = 1;
      problem.stored = {context, 4 * size, 1, 1};
      problem.x = random_values(random, problem.stored.size());
      problem.specs.push_back(AttentionSpec{context, 2, 1, plain ? 0.0F : 10'000.0F, plain ? 0.0F : 0.2F, 7});
      INFO("heads of " << size << ", context " << context);
      finish(random, problem);
      const Outcome expected = run(*backend("reference"), problem, true, false);
      for (const auto& on : candidates) {
        const Outcome actual = run(*on, problem, true);
        CHECK(distance(actual.y, expected.y) < 0.01);
        CHECK(distance(actual.dx, expected.dx) < 0.01);
      }
    }
  }
}

}  // namespace starling::kernels
