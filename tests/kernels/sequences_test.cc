// Layers for sequences: the reference definitions against calculus and against what follows from them, and
// every back end against the reference.
#include <cmath>
#include <functional>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/sequences/loops.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/dropout.h"
#include "kernels/reference/embedding.h"
#include "kernels/reference/norm.h"
#include "kernels/reference/pointwise.h"
#include "tests/catch.h"
#include "tests/kernels/calculus.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/near.h"
#include "tests/kernels/problems.h"

namespace starling::kernels {
namespace {

using reference::check_derivative;
using reference::dot;
using reference::draw;
using reference::read;
using reference::Values;
using reference::write;

AttentionSpec attention(Random& random, bool rotary, float dropout) {
  const int groups = between(random, 1, 3), heads = groups * between(random, 1, 3);
  return {between(random, 1, 6), heads, groups, rotary ? 10'000.0F : 0.0F, dropout, random.bits()};
}

Values attend(const AttentionSpec& it, const Values& x, const Shape& in, std::uint64_t draws = 0) {
  const Shape out = output_shape(it, in);
  Values y(out.size());
  reference::attention_forward(it, {it, true, draws}, read(x, in), write(y, out));
  return y;
}

void check_near(const std::vector<float>& actual, const std::vector<float>& expected) {
  REQUIRE(actual.size() == expected.size());
  double scale = 0;
  for (const float value : expected) scale = std::max(scale, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (near(actual[i], expected[i], 3e-5, scale + 1e-3)) continue;
    FAIL("element " << i << " of " << actual.size() << " is " << actual[i] << ", not " << expected[i]);
  }
}

void check_back_ends(const Problem& problem, bool input_gradient = true, bool twice = true) {
  const Outcome expected = run(*backend("reference"), problem, input_gradient, false);
  std::vector<std::unique_ptr<Backend>> candidates;
  for (const auto choice : {cpu::Choice::automatic, cpu::Choice::onednn, cpu::Choice::lanes})
    candidates.push_back(cpu::make_backend(Precision::f32, choice));
  if (auto gpu = gpu_backend()) candidates.push_back(std::move(gpu));
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    INFO("candidate " << i);
    const Outcome actual = run(*candidates[i], problem, input_gradient, twice);
    REQUIRE(actual.shape == expected.shape);
    check_near(actual.y, expected.y);
    check_near(actual.gradient, expected.gradient);
    if (input_gradient) check_near(actual.dx, expected.dx);
  }
}

// Vectors of these channels, for sequences of this length.
Problem sequences_problem(Random& random, int context, int channels) {
  Problem problem;
  problem.height = problem.width = 1;
  problem.stored = {context * between(random, 1, 4), channels, 1, 1};
  problem.x = random_values(random, problem.stored.size(), -2, 2);
  return problem;
}

}  // namespace

TEST_CASE("the reference attention's backward pass is the derivative of its forward pass") {
  Random random(201);
  for (int round = 0; round < 16; ++round) {
    const AttentionSpec it = attention(random, round % 2 == 1, round % 4 > 1 ? 0.4F : 0.0F);
    const int size = 2 * between(random, 1, 2);
    const Shape in{2 * it.context, (it.heads + 2 * it.groups) * size, 1, 1}, out = output_shape(it, in);
    INFO("round " << round << ", context " << it.context << ", " << it.heads << " heads, " << it.groups);
    Values x = draw(random, in.size()), dy = draw(random, out.size()), dx(in.size());
    reference::attention_backward(it, {it, true, 5}, read(x, in), read(dy, out), write(dx, in));
    check_derivative(x, dx, [&] { return dot(attend(it, x, in, 5), dy); });
  }
}

TEST_CASE("attention yields the mean of the values so far if all queries are 0") {
  Random random(202);
  const AttentionSpec it{5, 2, 1};
  const Shape in{10, 8, 1, 1};  // 2 queries, a key and a value of 2 floats
  Values x = draw(random, in.size());
  for (std::size_t n = 0; n < 10; ++n) std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(8 * n), 4, 0.0);
  const Values y = attend(it, x, in);
  for (std::size_t n = 0; n < 10; ++n) {
    for (std::size_t f = 0; f < 4; ++f) {
      double mean = 0;
      for (std::size_t j = n / 5 * 5; j <= n; ++j) mean += x[8 * j + 6 + f % 2];
      CHECK(near(y[4 * n + f], mean / static_cast<double>(n % 5 + 1), 1e-12));
    }
  }
}

TEST_CASE("attention looks neither at later positions nor at other sequences") {
  Random random(203);
  const AttentionSpec it{6, 2, 2, 10'000, 0.25F, 9};
  const Shape in{12, 24, 1, 1};
  Values x = draw(random, in.size());
  const Values before = attend(it, x, in);
  const std::size_t changed = 3;  // of the first sequence
  for (std::size_t c = 0; c < 24; ++c) x[24 * changed + c] += 1;
  const Values after = attend(it, x, in);
  for (std::size_t i = 0; i < before.size(); ++i) {
    INFO("position " << i / 8);
    CHECK((before[i] == after[i]) == (i / 8 < changed || i / 8 >= 6));
  }
}

TEST_CASE("with rotary positions only the distance of two tokens matters") {
  const AttentionSpec it{8, 1, 1, 100};
  const Shape in{8, 12, 1, 1};  // a query, a key and a value of 4 floats
  Random random(204);
  const Values token = draw(random, 12);
  Values x;
  for (int n = 0; n < 8; ++n) x.insert(x.end(), token.begin(), token.end());
  const reference::Head head = reference::read_head(it, read(x, in), 0, 0);
  for (int distance = 0; distance < 4; ++distance) {
    const double score = head.dot(head.q, distance, head.k, 0);
    for (int j = 1; j < 4; ++j) CHECK(near(head.dot(head.q, j + distance, head.k, j), score, 1e-12));
    CHECK(near(score, head.dot(head.q, 0, head.k, 0), 1e-3) == (distance == 0));
  }
}

TEST_CASE("the reference embedding, position, RMS norm, SwiGLU and GELU have the right derivatives") {
  Random random(205);
  const Shape in{6, 4, 1, 1};
  Values x = draw(random, in.size()), dy = draw(random, in.size()), dx(in.size()), y(in.size());
  SECTION("position") {
    const PositionSpec it{3, 0};
    Values weight = draw(random, 12), dweight(12);
    const auto f = [&] {
      reference::position_forward(it, weight.data(), read(x, in), write(y, in));
      return dot(y, dy);
    };
    reference::position_backward(it, read(dy, in), write(dx, in), dweight.data());
    check_derivative(x, dx, f);
    check_derivative(weight, dweight, f);
  }
  SECTION("embedding") {
    const Shape tokens{6, 1, 1, 1};
    const Values numbers{0, 2, 2, 4, 0, 2};
    for (const bool shared : {false, true}) {
      const EmbeddingSpec it{5, 4, 0, shared};
      Values weight = draw(random, 20), dweight(20, 1.5);
      reference::embedding_backward(it, read(numbers, tokens), read(dy, in), dweight.data());
      for (double& value : dweight) value -= shared ? 1.5 : 0;
      check_derivative(weight, dweight, [&] {
        reference::embedding_forward(it, weight.data(), read(numbers, tokens), write(y, in));
        return dot(y, dy);
      });
    }
  }
  SECTION("RMS norm") {
    const RmsNormSpec it{0, 1e-2F};
    Values scale = draw(random, 4), dscale(4);
    const auto f = [&] {
      reference::rms_norm_forward(it, scale.data(), read(x, in), write(y, in));
      return dot(y, dy);
    };
    reference::rms_norm_backward(it, scale.data(), read(x, in), read(dy, in), write(dx, in), dscale.data());
    check_derivative(x, dx, f);
    check_derivative(scale, dscale, f);
  }
  SECTION("SwiGLU") {
    const Shape half{6, 2, 1, 1};
    dy.resize(12);
    y.resize(12);
    reference::swiglu_backward(read(x, in), read(dy, half), write(dx, in));
    check_derivative(x, dx, [&] {
      reference::swiglu_forward(read(x, in), write(y, half));
      return dot(y, dy);
    });
  }
  SECTION("GELU") {
    for (const bool tanh : {false, true}) {
      reference::gelu_backward({tanh}, read(x, in), read(dy, in), write(dx, in));
      check_derivative(x, dx, [&] {
        reference::gelu_forward({tanh}, read(x, in), write(y, in));
        return dot(y, dy);
      });
    }
  }
}

TEST_CASE("attention of every shape agrees with the reference") {
  Random random(206);
  for (int round = 0; round < 60; ++round) {
    const int groups = between(random, 1, 2), heads = groups * between(random, 1, 3);
    const bool long_one = round % 10 == 0, rotary = random.chance(0.5);
    const int context = long_one ? between(random, 129, 300) : between(random, 1, 40);
    const int size = rotary ? 2 * between(random, 1, 12) : between(random, 1, 24);
    Problem problem = sequences_problem(random, context, (heads + 2 * groups) * size);
    problem.specs.push_back(AttentionSpec{context, heads, groups, rotary ? 10'000.0F : 0.0F,
                                          random.chance(0.3) ? 0.3F : 0.0F, random.bits()});
    INFO("round " << round << ", context " << context << ", " << heads << " heads, " << groups
                  << " groups of " << size);
    finish(random, problem);
    check_back_ends(problem);
  }
}

TEST_CASE("attention with heads of usual sizes agrees with the reference") {
  Random random(210);
  for (const int size : {16, 32, 64, 128}) {
    for (const bool plain : {false, true}) {
      // Whole tiles and others, of any back end.
      const int context = plain ? 64 : between(random, 33, 100);
      Problem problem = sequences_problem(random, context, 4 * size);
      problem.stored.batch = context;
      problem.x.resize(problem.stored.size());
      problem.specs.push_back(AttentionSpec{context, 2, 1, plain ? 0.0F : 10'000.0F, plain ? 0.0F : 0.2F, 7});
      INFO("heads of " << size << ", context " << context);
      finish(random, problem);
      check_back_ends(problem);
    }
  }
}

TEST_CASE("a GPU rejects heads of more than 128 values") {
  const auto gpu = gpu_backend();
  if (!gpu) return;
  const auto queue = gpu->make_queue();
  const OperationSpec specs[] = {AttentionSpec{4, 2, 2}};
  const auto make = [&](int size) {
    return gpu->make(*queue, specs, gpu->input({4, 6 * size, 1, 1}, 1, 1), {});
  };
  CHECK(make(128)->output().shape.channels == 256);
  CHECK_THROWS_AS(make(129), DeviceError);
}

TEST_CASE("SwiGLU, GELU and normalizations of vectors agree with the reference") {
  Random random(211);
  for (int round = 0; round < 48; ++round) {
    const bool even = random.chance(0.5);
    const int channels = even ? 16 * between(random, 1, 9) : 2 * between(random, 1, 40);
    Problem problem = sequences_problem(random, between(random, 1, 90), channels);
    const auto place = add_norm_parameters(random, problem.parameters, static_cast<std::size_t>(channels));
    const OperationSpec specs[] = {SwigluSpec{},
                                   GeluSpec{true},
                                   GeluSpec{},
                                   RmsNormSpec{place.scale, 1e-2F},
                                   GroupNormSpec{1, place.scale, place.shift, 1e-2F},
                                   GroupNormSpec{1, place.scale, kNone, 1e-2F}};
    problem.specs.push_back(specs[round % 6]);
    INFO("round " << round << ", " << channels << " channels, batch " << problem.stored.batch);
    finish(random, problem);
    check_back_ends(problem);
  }
}

TEST_CASE("a block of a Transformer agrees with the reference") {
  Random random(207);
  for (int round = 0; round < 12; ++round) {
    const int context = between(random, 1, 20), features = 2 * between(random, 1, 12);
    Problem problem = sequences_problem(random, context, features);
    const auto add = [&](const OperationSpec& spec) { problem.specs.push_back(spec); };
    const auto shape = [&] {
      Shape it = problem.stored;
      for (const OperationSpec& spec : problem.specs) it = output_shape(spec, it);
      return it;
    };
    const auto linear_to = [&](int out) {
      LinearSpec spec = std::get<LinearSpec>(linear(random, problem, shape(), out));
      if (random.chance(0.5)) spec.bias = kNone;
      add(spec);
    };
    add(PositionSpec{context, add_parameters(random, problem.parameters, static_cast<std::size_t>(context),
                                             static_cast<std::size_t>(features))
                                  .weight});
    const auto place = add_norm_parameters(random, problem.parameters, static_cast<std::size_t>(features));
    if (round % 2 == 0)
      add(RmsNormSpec{place.scale, 1e-2F});
    else
      add(GroupNormSpec{1, place.scale, round % 4 == 1 ? kNone : place.shift, 1e-2F});
    linear_to(3 * 2 * 4);
    add(AttentionSpec{context, 2, 2, round % 2 == 0 ? 10'000.0F : 0.0F});
    linear_to(12);
    if (round % 3 == 0) add(SwigluSpec{});
    if (round % 3 == 1) add(GeluSpec{true});
    if (round % 3 == 2) add(GeluSpec{});
    linear_to(7);
    INFO("round " << round);
    finish(random, problem);
    check_back_ends(problem);
  }
}

TEST_CASE("linear layers of many tokens agree with the reference") {
  Random random(212);
  for (int round = 0; round < 24; ++round) {
    const int context = round % 4 == 1 ? between(random, 512, 600) : between(random, 64, 150);
    Problem problem = sequences_problem(random, context, between(random, 1, 60));
    const int out = round % 8 == 0 ? between(random, 385, 800) : between(random, 1, 120);
    LinearSpec spec = std::get<LinearSpec>(linear(random, problem, problem.stored, out));
    spec.tokens = true;
    if (round % 2 == 0) spec.bias = kNone;
    problem.specs.push_back(spec);
    if (round % 3 == 0) problem.specs.push_back(ReluSpec{});
    INFO("round " << round << ", to " << out << " features, batch " << problem.stored.batch);
    finish(random, problem);
    check_back_ends(problem);
  }
}

TEST_CASE("embeddings agree with the reference, shared weights are added to") {
  Random random(208);
  for (int round = 0; round < 24; ++round) {
    Problem problem;
    problem.height = problem.width = 1;
    problem.stored = {round < 20 ? between(random, 1, 60) : between(random, 200, 900), 1, 1, 1};
    const int tokens = between(random, 1, 30), features = between(random, 1, 40);
    const bool shared = round % 2 == 1;
    for (int i = 0; i < problem.stored.batch; ++i)
      problem.x.push_back(static_cast<float>(between(random, 0, tokens - 1)));
    const Place place = add_parameters(random, problem.parameters, static_cast<std::size_t>(tokens),
                                       static_cast<std::size_t>(features));
    problem.specs.push_back(EmbeddingSpec{tokens, features, place.weight, shared});
    INFO("round " << round << ", shared " << shared);
    finish(random, problem);
    check_back_ends(problem, false, !shared);
  }
}

TEST_CASE("the loops of every instruction set compute exponentials and products alike") {
  using namespace cpu::sequences;  // NOLINT
  Random random(209);
  for (const Loops* const* set = all_loops(); *set != nullptr; ++set) {
    for (int round = 0; round < 200; ++round) {
      const int n = between(random, 1, 70);
      std::vector<float> x = random_values(random, static_cast<std::size_t>(n), -100, 90);
      if (round == 0) x[0] = -INFINITY;
      const float minus = static_cast<float>(random.uniform(-2, 2));
      CHECK((*set)->largest(n, x.data()) == *std::max_element(x.begin(), x.end()));
      std::vector<float> y = x;
      const float sum = (*set)->exponentials(n, y.data(), minus);
      double expected = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double value = std::exp(static_cast<double>(x[i] - minus));
        expected += value;
        if (value < 1e38 && value > 2e-38) CHECK(near(y[i], value, 2e-7, value));
        if (value < 1e-38) CHECK(y[i] == 0);
      }
      INFO(sum << " is not " << expected << ", n " << n << ", round " << round);
      if (expected < 1e38) CHECK(near(sum, expected, 1e-5, 1e-30));
    }
    for (int round = 0; round < 100; ++round) {
      const int rows = between(random, 1, 20), columns = between(random, 1, 70),
                depth = between(random, 1, 20);
      const bool turned = random.chance(0.5), adds = random.chance(0.5);
      const auto a = random_values(random, static_cast<std::size_t>(rows * depth));
      const auto b = random_values(random, static_cast<std::size_t>(depth * columns));
      auto c = random_values(random, static_cast<std::size_t>(rows * columns));
      auto expected = c;
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j) {
          double sum = adds ? expected[static_cast<std::size_t>(i * columns + j)] : 0;
          for (int k = 0; k < depth; ++k)
            sum += static_cast<double>(a[static_cast<std::size_t>(turned ? k * rows + i : i * depth + k)]) *
                   b[static_cast<std::size_t>(k * columns + j)];
          expected[static_cast<std::size_t>(i * columns + j)] = static_cast<float>(sum);
        }
      }
      (*set)->multiply({rows, columns, depth, a.data(), turned ? 1 : depth, turned ? rows : 1, b.data(),
                        columns, c.data(), columns, adds});
      check_near(c, expected);
    }
  }
}

namespace {

using cpu::sequences::kQueries;

// What the loops for attention weights read and write, of one tile, beside their definitions in double.
struct Weights {
  int keys, visible;
  std::vector<float> scores, gradients;

  Weights(Random& random, int number, int seen)
      : keys(number),
        visible(seen),
        scores(random_values(random, static_cast<std::size_t>(number * kQueries), -9, 9)),
        gradients(random_values(random, scores.size())) {}

  bool sees(int i, int j) const { return j < visible + i; }
  std::size_t at(int i, int j) const { return static_cast<std::size_t>(j * kQueries + i); }
  double largest(int i) const {
    double most = -INFINITY;
    for (int j = 0; j < keys; ++j) {
      if (sees(i, j)) most = std::max(most, static_cast<double>(scores[at(i, j)]));
    }
    return most;
  }
  double sum(int i, double minus) const {
    double total = 0;
    for (int j = 0; j < keys; ++j) total += weight(i, j, minus);
    return total;
  }
  double weight(int i, int j, double minus) const {
    return sees(i, j) ? std::exp(static_cast<double>(scores[at(i, j)]) - minus) : 0;
  }
  // f(i, j) for all weights, as floats.
  template <class F>
  std::vector<float> table(const F& f) const {
    std::vector<float> values(scores.size());
    for (int j = 0; j < keys; ++j) {
      for (int i = 0; i < kQueries; ++i) values[at(i, j)] = static_cast<float>(f(i, j));
    }
    return values;
  }
};

// Two steps of the softmax: `first`, then `second`.
void check_softmax(const cpu::sequences::Loops& loops, const Weights& first, const Weights& second) {
  std::vector<float> most(kQueries, -INFINITY), sum(kQueries, 0), kept(kQueries, NAN);
  std::vector<float> weights = first.scores;
  loops.softmax({first.keys, first.visible, weights.data()}, most.data(), sum.data(), kept.data());
  check_near(weights, first.table([&](int i, int j) { return first.weight(i, j, first.largest(i)); }));
  weights = second.scores;
  loops.softmax({second.keys, second.visible, weights.data()}, most.data(), sum.data(), kept.data());
  for (int i = 0; i < kQueries; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const double largest = std::max(first.largest(i), second.largest(i));
    CHECK(static_cast<double>(most[k]) == largest);
    CHECK(near(sum[k], first.sum(i, largest) + second.sum(i, largest), 1e-6, 1));
    CHECK(near(kept[k], std::exp(first.largest(i) - largest), 1e-6, 1e-6));
  }
  check_near(weights, second.table([&](int i, int j) {
    return second.weight(i, j, std::max(first.largest(i), second.largest(i)));
  }));
}

void check_weights(const cpu::sequences::Loops& loops, Random& random, const Weights& it) {
  const std::vector<float> minus = random_values(random, kQueries, 7, 9),
                           means = random_values(random, kQueries);
  std::vector<float> weights = it.scores, gradients = it.gradients;
  const cpu::sequences::WeightTile tile{it.keys, it.visible, weights.data()};
  const auto of = [](const std::vector<float>& values, int i) {
    return static_cast<double>(values[static_cast<std::size_t>(i)]);
  };
  loops.softmax_again(tile, minus.data());
  const auto weight = [&](int i, int j) { return it.weight(i, j, of(minus, i)); };
  check_near(weights, it.table(weight));

  const reference::DropoutDraw draw(DropoutSpec{0.3F, random.bits()}, 5);
  const std::uint32_t index = static_cast<std::uint32_t>(random.bits()), step = 1000;
  const auto factor = [&](int i, int j) {
    return draw.keeps(index + static_cast<std::uint32_t>(i) * step + static_cast<std::uint32_t>(j)) ? 1 / 0.7
                                                                                                    : 0;
  };
  std::vector<float> dropped(weights.size(), NAN);
  loops.drop_weights(tile, {{draw.key[0], draw.key[1]}, draw.dropped, index, 1 / 0.7F}, step, dropped.data(),
                     gradients.data());
  check_near(dropped, it.table([&](int i, int j) { return weight(i, j) * factor(i, j); }));
  const auto gradient = [&](int i, int j) {
    return of(it.gradients, static_cast<int>(it.at(i, j))) * factor(i, j);
  };
  check_near(gradients, it.table(gradient));

  loops.softmax_gradient(tile, means.data(), 0.25F, gradients.data());
  check_near(gradients,
             it.table([&](int i, int j) { return weight(i, j) * (gradient(i, j) - of(means, i)) * 0.25; }));
}

}  // namespace

TEST_CASE("the loops of every instruction set compute attention weights alike") {
  using namespace cpu::sequences;  // NOLINT
  Random random(214);
  for (const Loops* const* set = all_loops(); *set != nullptr; ++set) {
    INFO("instruction set " << set - all_loops());
    for (int round = 0; round < 60; ++round) {
      const int keys = between(random, 1, 50);
      const Weights first(random, keys, between(random, 1, keys)),
          second(random, keys, between(random, 1, 60));
      check_softmax(**set, first, second);
      check_weights(**set, random, first);
    }
  }
}

TEST_CASE("the GELU of every instruction set is that of the normal distribution") {
  using namespace cpu::sequences;  // NOLINT
  std::vector<float> x, dy;
  for (int i = -1200; i <= 1200; ++i) x.push_back(static_cast<float>(i) * 0.01F);
  dy.assign(x.size(), 1.0F);
  for (const Loops* const* set = all_loops(); *set != nullptr; ++set) {
    INFO("instruction set " << set - all_loops());
    std::vector<float> y(x.size()), dx(x.size());
    (*set)->gelu(x.size(), x.data(), y.data());
    (*set)->gelu_gradient(x.size(), x.data(), dy.data(), dx.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double at = x[i], normal = std::erfc(-at / std::sqrt(2.0)) / 2,
                   density = std::exp(-at * at / 2) / std::sqrt(2 * 3.14159265358979);
      INFO("at " << at);
      CHECK(std::abs(y[i] - at * normal) <= 4e-7 * (1 + std::abs(at)));
      CHECK(std::abs(dx[i] - (normal + at * density)) <= 4e-7);
    }
  }
}

}  // namespace starling::kernels
