// Every back end against the reference: the same random problems must give the same results.
#include <array>
#include <cmath>

#include "kernels/by_name/backends.h"
#include "kernels/cpu/backend.h"
#include "kernels/reference/softmax_cross_entropy.h"
#include "tests/catch.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/near.h"
#include "tests/kernels/problems.h"
#include "tests/models/allocations.h"

namespace starling::kernels {
namespace {

// Float sums in a different order differ by a few units in the last place of the largest partial sum. That
// sum is about the largest value, but at least `least`: a normalization's gradient may be 0 as the difference
// of larger values.
void check_close(const std::vector<float>& actual, const std::vector<float>& expected, double least = 1e-3) {
  REQUIRE(actual.size() == expected.size());
  double scale = 0;
  for (const float value : expected) scale = std::max(scale, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (near(actual[i], expected[i], 3e-5, scale + least)) continue;
    FAIL("element " << i << " of " << actual.size() << " is " << actual[i] << ", not " << expected[i]);
  }
}

// The modes of the cpu back end.
std::vector<std::unique_ptr<Backend>> host_candidates() {
  std::vector<std::unique_ptr<Backend>> list;
  for (const auto choice : {cpu::Choice::automatic, cpu::Choice::onednn, cpu::Choice::lanes}) {
    list.push_back(cpu::make_backend(Precision::f32, choice));
  }
  return list;
}

// Adds a GPU if there is one.
std::vector<std::unique_ptr<Backend>> candidates() {
  auto list = host_candidates();
  if (auto gpu = gpu_backend()) list.push_back(std::move(gpu));
  return list;
}

void check_agreement(const Problem& problem, bool input_gradient, bool twice = true, double least = 1e-3) {
  const Outcome expected = run(*backend("reference"), problem, input_gradient, false);
  int candidate = 0;
  for (const auto& on : candidates()) {
    INFO("candidate " << candidate++);
    const Outcome actual = run(*on, problem, input_gradient, twice);
    REQUIRE(actual.shape == expected.shape);
    check_close(actual.y, expected.y);
    check_close(actual.gradient, expected.gradient, least);
    if (input_gradient) check_close(actual.dx, expected.dx, least);
  }
}

// The same network built without a backward pass.
void check_evaluations_agree(const Problem& problem) {
  const std::vector<float> expected = evaluate(*backend("reference"), problem);
  int candidate = 0;
  for (const auto& on : candidates()) {
    INFO("candidate " << candidate++);
    check_close(evaluate(*on, problem), expected);
  }
}

}  // namespace

TEST_CASE("an unknown back end is rejected with the list of known ones") {
  const auto result = make_backend("abacus");
  REQUIRE(!result.ok());
  CHECK(result.error().message == "unknown back end \"abacus\"; accepted are cpu or reference");
  for (const std::string& name : backend_names()) CHECK(backend(name)->name() == name);
}

TEST_CASE("convolutions of every shape agree with the reference") {
  Random random(21);
  for (int round = 0; round < 120; ++round) {
    const int kernel = between(random, 1, 5), stride = between(random, 1, 3);
    const int padding = between(random, 0, kernel - 1);
    const int channels = between(random, 0, 3) == 0 ? 16 : between(random, 1, 21);
    Problem problem = images_problem(random, channels, between(random, kernel, 11),
                                     between(random, kernel, 11), random.chance(0.3));
    const Shape in{problem.stored.batch, channels, problem.height, problem.width};
    const int out = between(random, 0, 3) == 0 ? 32 : between(random, 1, 26);
    problem.specs.push_back(convolution(random, problem, in, out, kernel, stride, padding));
    if (random.chance(0.5)) problem.specs.push_back(ReluSpec{});
    if (random.chance(0.3)) problem.specs.push_back(AveragePoolSpec{1});
    INFO("round " << round << ", kernel " << kernel << ", stride " << stride << ", padding " << padding
                  << ", " << channels << " to " << out << " channels, " << in.height << "x" << in.width
                  << ", batch " << in.batch);
    finish(random, problem);
    check_agreement(problem, random.chance(0.7));
  }
}

TEST_CASE("linear layers of every shape agree with the reference") {
  Random random(22);
  for (int round = 0; round < 60; ++round) {
    Problem problem =
        images_problem(random, between(random, 1, 40), between(random, 1, 4), between(random, 1, 4), false);
    const Shape in{problem.stored.batch, problem.stored.channels, problem.height, problem.width};
    const int out = between(random, 1, 70);
    problem.specs.push_back(linear(random, problem, in, out));
    if (random.chance(0.5)) problem.specs.push_back(ReluSpec{});
    INFO("round " << round << ", " << in.sample_size() << " to " << out << ", batch " << in.batch);
    finish(random, problem);
    check_agreement(problem, random.chance(0.7));
  }
}

TEST_CASE("pools and ReLUs of every shape agree with the reference") {
  Random random(23);
  for (int round = 0; round < 90; ++round) {
    const int size = between(random, 1, 3);
    Problem problem = images_problem(random, between(random, 1, 21), between(random, size, 9),
                                     between(random, size, 9), random.chance(0.3));
    if (round % 3 == 0) problem.specs.push_back(AveragePoolSpec{size});
    if (round % 3 == 1) problem.specs.push_back(MaxPoolSpec{size});
    if (round % 3 == 2) problem.specs.push_back(ReluSpec{});
    INFO("round " << round << ", size " << size << ", " << problem.height << "x" << problem.width);
    finish(random, problem);
    check_agreement(problem, true);
  }
}

TEST_CASE("chains of operations agree with the reference for any fusion and any formats") {
  Random random(24);
  for (int round = 0; round < 60; ++round) {
    Problem problem = images_problem(random, between(random, 1, 4), between(random, 8, 12),
                                     between(random, 8, 12), random.chance(0.3));
    Shape shape{problem.stored.batch, problem.stored.channels, problem.height, problem.width};
    std::string text;
    const auto add = [&](const OperationSpec& spec) {
      problem.specs.push_back(spec);
      shape = output_shape(spec, shape);
    };
    const int length = between(random, 2, 7);
    for (int i = 0; i < length; ++i) {
      const int kind = between(random, 0, 4);
      if (kind == 0 && shape.height > 2 && shape.width > 2) {
        add(convolution(random, problem, shape, between(random, 1, 20), between(random, 1, 3), 1, 0));
        text += "convolution ";
      } else if (kind == 1 && shape.height % 2 == 0 && shape.width % 2 == 0) {
        add(AveragePoolSpec{2});
        text += "average ";
      } else if (kind == 2 && shape.height > 1 && shape.width > 1) {
        add(MaxPoolSpec{2});
        text += "max ";
      } else if (kind == 3 && i + 3 > length) {
        add(linear(random, problem, shape, between(random, 1, 20)));
        text += "linear ";
      } else {
        add(ReluSpec{});
        text += "relu ";
      }
    }
    INFO("round " << round << ": " << text);
    finish(random, problem);
    check_agreement(problem, true);
  }
}

TEST_CASE("LeNet's layers agree with the reference") {
  Random random(25);
  Problem problem;
  problem.stored = {64, 1, 28, 28};
  problem.height = problem.width = 26;
  problem.x = random_values(random, problem.stored.size());
  Shape shape{64, 1, 26, 26};
  const auto add = [&](const OperationSpec& spec) {
    problem.specs.push_back(spec);
    shape = output_shape(spec, shape);
  };
  add(convolution(random, problem, shape, 20, 3, 1, 0));
  add(ReluSpec{});
  add(AveragePoolSpec{2});
  add(convolution(random, problem, shape, 50, 5, 1, 0));
  add(ReluSpec{});
  add(AveragePoolSpec{2});
  add(linear(random, problem, shape, 128));
  add(ReluSpec{});
  add(linear(random, problem, shape, 10));
  REQUIRE(shape == Shape{64, 10, 1, 1});
  finish(random, problem);
  check_agreement(problem, false, false);
}

TEST_CASE("grouped and biasless convolutions agree with the reference") {
  Random random(27);
  for (int round = 0; round < 100; ++round) {
    const int kernel = between(random, 1, 3), stride = between(random, 1, 2),
              padding = between(random, 0, kernel - 1);
    const int groups = between(random, 1, 4);
    // Sometimes every channel is its own group.
    const int in_each = between(random, 0, 2) == 0 ? 1 : between(random, 1, 9);
    const int out_each = between(random, 0, 2) == 0 ? 1 : between(random, 1, 9);
    Problem problem = images_problem(random, groups * in_each, between(random, kernel, 9),
                                     between(random, kernel, 9), random.chance(0.3));
    const Shape in{problem.stored.batch, problem.stored.channels, problem.height, problem.width};
    const bool biased = random.chance(0.5);
    problem.specs.push_back(
        convolution(random, problem, in, groups * out_each, kernel, stride, padding, groups, biased));
    if (random.chance(0.5)) problem.specs.push_back(ReluSpec{});
    INFO("round " << round << ", kernel " << kernel << ", stride " << stride << ", padding " << padding
                  << ", " << groups << " groups of " << in_each << " to " << out_each << " channels, "
                  << in.height << "x" << in.width << ", batch " << in.batch << ", biased " << biased);
    finish(random, problem);
    check_agreement(problem, random.chance(0.7));
    check_evaluations_agree(problem);
  }
}

TEST_CASE("strided convolutions that leave a remainder agree with the reference") {
  Random random(28);
  for (int round = 0; round < 40; ++round) {
    const int kernel = between(random, 1, 3), stride = between(random, 2, 3),
              padding = between(random, 0, kernel - 1);
    Problem problem = images_problem(random, between(random, 1, 33), between(random, 3, 9),
                                     between(random, 3, 9), random.chance(0.3));
    const Shape in{problem.stored.batch, problem.stored.channels, problem.height, problem.width};
    OperationSpec spec =
        convolution(random, problem, in, between(random, 1, 33), kernel, stride, padding, 1, false);
    auto& it = std::get<ConvolutionSpec>(spec);
    const auto extent = [&](int size) {
      return (size + 2 * padding - kernel) / stride + 1;
    };  // rounded down as usual
    it.height = extent(in.height);
    it.width = extent(in.width);
    problem.specs.push_back(spec);
    INFO("round " << round << ", kernel " << kernel << ", stride " << stride << ", padding " << padding
                  << ", " << in.height << "x" << in.width << " to " << it.height << "x" << it.width);
    finish(random, problem);
    check_agreement(problem, random.chance(0.7));
  }
}

TEST_CASE("normalizations, GELU and dropout agree with the reference in every format and shape") {
  Random random(29);
  for (int round = 0; round < 240; ++round) {
    const int kind = round % 4;
    const int before = round / 4 % 3;  // 0: plain, perhaps a window; 1: from a convolution; 2: vectors
    const int channels = between(random, 0, 3) == 0 ? 16 * between(random, 1, 3) : between(random, 1, 37);
    const int height = before == 2 ? 1 : between(random, 1, 9),
              width = before == 2 ? 1 : between(random, 1, 9);
    Problem problem = images_problem(random, before == 1 ? between(random, 1, 20) : channels, height, width,
                                     before == 0 && random.chance(0.5));
    problem.stored.batch += 3;  // with one or two values only rounding errors remain
    problem.x = random_values(random, problem.stored.size(), -1, 1.5);
    const Shape in{problem.stored.batch, problem.stored.channels, height, width};
    std::string text;
    if (before == 1) {
      problem.specs.push_back(convolution(random, problem, in, channels, 1, 1, 0, 1, false));
      text = "convolution ";
    }
    const auto [spec, name] = shape_keeper(random, problem, kind, channels);
    problem.specs.push_back(spec);
    text += name;
    if (random.chance(0.5)) {
      problem.specs.push_back(ReluSpec{});
      text += "relu ";
    }
    // Operations that read whole blocks would see nonzero padding.
    if (random.chance(0.5)) {
      problem.specs.push_back(
          convolution(random, problem, {in.batch, channels, height, width}, between(random, 1, 20), 1, 1, 0));
      text += "convolution";
    }
    INFO("round " << round << ": " << text << ", " << channels << " channels, " << height << "x" << width
                  << ", batch " << in.batch);
    finish(random, problem);
    check_agreement(problem, random.chance(0.7), true, 0.1);
    check_evaluations_agree(problem);
  }
}

TEST_CASE("global average pools agree with the reference in every format and shape") {
  Random random(30);
  for (int round = 0; round < 60; ++round) {
    const int channels = between(random, 0, 3) == 0 ? 32 : between(random, 1, 37);
    Problem problem = images_problem(random, round % 2 == 0 ? channels : between(random, 1, 9),
                                     between(random, 1, 9), between(random, 1, 9), random.chance(0.3));
    const Shape in{problem.stored.batch, problem.stored.channels, problem.height, problem.width};
    if (round % 2 == 1) problem.specs.push_back(convolution(random, problem, in, channels, 1, 1, 0));
    problem.specs.push_back(GlobalAveragePoolSpec{});
    if (random.chance(0.5))
      problem.specs.push_back(linear(random, problem, {in.batch, channels, 1, 1}, between(random, 1, 12)));
    INFO("round " << round << ": " << channels << " channels, " << in.height << "x" << in.width);
    finish(random, problem);
    check_agreement(problem, true);
    check_evaluations_agree(problem);
  }
}

TEST_CASE("networks of modern layers agree with the reference for any formats") {
  Random random(31);
  for (int round = 0; round < 60; ++round) {
    RandomNetwork network(random, 3, 20);
    auto& [problem, shape, text] = network;
    const int length = between(random, 2, 8);
    for (int i = 0; i < length; ++i) {
      const int kind = between(random, 0, 7);
      if (kind < 3) {
        const int kernel = shape.height > 2 && random.chance(0.7) ? 3 : 1;
        const int groups = shape.channels % 2 == 0 && random.chance(0.3) ? 2 : 1;
        network.add(convolution(random, problem, shape, groups * between(random, 1, 17), kernel,
                                between(random, 1, 2), kernel / 2, groups, random.chance(0.3)),
                    "convolution ");
        if (random.chance(0.6)) network.add(batch_norm(random, problem, shape.channels), "batch norm ");
        if (random.chance(0.6)) network.add(ReluSpec{}, "relu ");
      } else {
        network.add_shape_keeper(random, kind - 3);
      }
    }
    if (random.chance(0.5)) {
      network.add(GlobalAveragePoolSpec{}, "global pool ");
      network.add(linear(random, problem, shape, between(random, 1, 20)), "linear");
    }
    INFO("round " << round << ": " << text);
    finish(random, problem);
    check_agreement(problem, random.chance(0.5), true, 0.1);
    check_evaluations_agree(problem);
  }
}

namespace {

// y = tail(a(x) + b(x)), optionally with a ReLU; the gradient at x is the sum over both branches.
Outcome run_branches(const Backend& on, const Problem& problem, std::span<const OperationSpec> a,
                     std::span<const OperationSpec> b, bool relu, std::span<const OperationSpec> tail) {
  const Activation input = on.input(problem.stored, problem.height, problem.width);
  const auto owned = on.make_queue();
  Queue& queue = *owned;
  Chain left(on, queue, a, input), right(on, queue, b, input);
  const auto sum = on.make_sum(queue, left.output(), right.output(), relu);
  Chain rest(on, queue, tail, sum->output());
  const Buffer values = put(on, queue, problem.parameters);
  const float* parameters = values.data();
  Buffer gradient = put(on, queue, std::vector<float>(problem.parameters.size(), 7.0F));
  for (int round = 0; round < 2; ++round) {
    for (Chain* branch : {&left, &right}) {
      queue.upload(problem.x.data(), branch->x().data(), problem.x.size() * sizeof(float));
      branch->forward(parameters);
    }
    sum->forward(left.y().data(), right.y().data(), rest.x().data());
    rest.forward(parameters);
    pack(on, queue, rest.output(), problem.dy, rest.dy());
    rest.backward(parameters, gradient.data());
    // In one round da shares dy's memory, if allowed.
    const bool in_place = round == 1 && sum->output().format == left.output().format;
    if (in_place) {
      sum->backward(rest.x().data(), rest.dx().data(), rest.dx().data(), right.dy().data());
      const std::vector<float> passed_on = take(queue, rest.dx());
      queue.upload(passed_on.data(), left.dy().data(), left.dy().bytes());
      queue.wait();
    } else {
      sum->backward(rest.x().data(), rest.dx().data(), left.dy().data(), right.dy().data());
    }
    left.backward(parameters, gradient.data());
    right.backward(parameters, gradient.data());
    on.accumulate(queue, input, left.dx().data(), right.dx().data());
  }
  Outcome outcome;
  outcome.shape = rest.output().shape;
  outcome.y = unpack(on, queue, rest.output(), rest.y());
  outcome.gradient = take(queue, gradient);
  outcome.dx = unpack(on, queue, input, left.dx());
  return outcome;
}

}  // namespace

TEST_CASE("sums of two branches agree with the reference for any formats of the branches") {
  Random random(32);
  for (int round = 0; round < 120; ++round) {
    const int channels = between(random, 0, 2) == 0 ? 16 : between(random, 1, 20);
    const int extent = between(random, 0, 3) == 0 ? 1 : between(random, 2, 7);
    Problem problem = images_problem(random, channels, extent, extent, random.chance(0.3));
    problem.stored.batch = between(random, 3, 20);
    problem.x = random_values(random, problem.stored.size());
    const Shape shape{problem.stored.batch, channels, extent, extent};
    std::string text;
    const auto branch = [&](bool may_be_empty) {
      std::vector<OperationSpec> specs;
      const int kind = between(random, may_be_empty ? 0 : 1, 5);
      if (kind == 1) {
        specs.push_back(ReluSpec{});
      } else if (kind == 2) {
        specs.push_back(convolution(random, problem, shape, channels, 1, 1, 0));
      } else if (kind == 3) {
        specs.push_back(convolution(random, problem, shape, channels, 1, 1, 0, 1, false));
        specs.push_back(batch_norm(random, problem, channels));
      } else if (kind == 4) {
        specs.push_back(GeluSpec{});
      } else if (kind == 5) {
        auto spec = std::get<ConvolutionSpec>(convolution(random, problem, shape, channels, 3, 1, 1));
        spec.height = spec.width = extent;
        specs.push_back(spec);
      }
      constexpr const char* kNames[] = {
          "x", "relu", "convolution", "convolution batch norm", "gelu", "padded convolution"};
      text += kNames[kind] + std::string(" + ");
      return specs;
    };
    const std::vector<OperationSpec> a = branch(true), b = branch(true);
    std::vector<OperationSpec> tail;
    if (random.chance(0.5))
      tail.push_back(convolution(random, problem, shape, between(random, 1, 20), 1, 1, 0));
    Shape out = shape;
    for (const OperationSpec& spec : tail) out = output_shape(spec, out);
    problem.dy = random_values(random, out.size());
    const bool relu = random.chance(0.5);
    INFO("round " << round << ": " << text << ", relu " << relu << ", " << channels << " channels, extent "
                  << extent);
    const Outcome expected = run_branches(*backend("reference"), problem, a, b, relu, tail);
    int candidate = 0;
    for (const auto& on : candidates()) {
      INFO("candidate " << candidate++);
      const Outcome actual = run_branches(*on, problem, a, b, relu, tail);
      REQUIRE(actual.shape == expected.shape);
      check_close(actual.y, expected.y);
      check_close(actual.gradient, expected.gradient, 0.1);
      check_close(actual.dx, expected.dx, 0.1);
    }
  }
}

TEST_CASE("our own operations do not allocate after construction") {
  Random random(34);
  for (const int channels : {16, 5}) {
    for (const int extent : {8, 1}) {
      Problem problem;
      problem.stored = {16, channels, extent, extent};
      problem.height = problem.width = extent;
      problem.x = random_values(random, problem.stored.size());
      problem.specs = {ReluSpec{},           batch_norm(random, problem, channels),
                       ReluSpec{},           group_norm(random, problem, channels),
                       DropoutSpec{0.2F, 3}, GlobalAveragePoolSpec{}};
      finish(random, problem);
      int candidate = 0;
      for (const auto& on : host_candidates()) {
        INFO("candidate " << candidate++ << ", " << channels << " channels, extent " << extent);
        const Activation plain = on->input(problem.stored, extent, extent);
        Chain chain(*on, host_queue(), problem.specs, plain),
            relu(*on, host_queue(), std::span(problem.specs).first(1), plain);
        const auto sum = on->make_sum(host_queue(), relu.output(), plain, true),
                   other = on->make_sum(host_queue(), plain, relu.output(), false);
        Buffer y(sum->output().floats), a(relu.output().floats), b(plain.floats), x(plain.floats);
        std::vector<float> gradient(problem.parameters.size());
        const long before = allocation_count();
        for (const bool again : {false, true}) {
          chain.forward(problem.parameters.data(), again);
          chain.backward(problem.parameters.data(), gradient.data());
          sum->forward(a.data(), b.data(), y.data());
          sum->backward(y.data(), y.data(), a.data(), b.data());
          other->forward(b.data(), a.data(), x.data());
          other->backward(x.data(), x.data(), b.data(), a.data());
          on->accumulate(host_queue(), plain, x.data(), b.data());
        }
        CHECK(allocation_count() == before);
      }
    }
  }
}

TEST_CASE("batch normalization keeps its precision for values far from 0") {
  Random random(33);
  for (const int channels : {16, 5}) {
    Problem problem;
    problem.stored = {8, channels, 24, 24};
    problem.height = problem.width = 24;
    // Multiples of 1/256, so that the floats are exact: mean 3000, deviation about 1/2; and one outlier at
    // the start.
    for (std::size_t i = 0; i < problem.stored.size(); ++i) {
      problem.x.push_back(3000 + std::round(static_cast<float>(random.uniform(-1, 1)) * 256) / 256);
    }
    problem.x[0] = 0;
    problem.specs = {batch_norm(random, problem, channels)};
    finish(random, problem);
    check_agreement(problem, true);
  }
}

TEST_CASE("the loss of every back end counts only the first samples of a batch during evaluation") {
  Random random(26);
  auto backends = candidates();
  backends.push_back(backend("reference"));
  for (std::size_t run = 0; run < 3 * backends.size(); ++run) {
    const auto& on = backends[run / 3];
    const int classes = std::array{4, 33, 1001}[run % 3];
    const auto size = static_cast<std::size_t>(5 * classes);
    // The logits have the format of a ReLU's output.
    const auto owned = on->make_queue();
    Queue& queue = *owned;
    const OperationSpec relu[] = {ReluSpec{}};
    const Activation logits = on->make(queue, relu, on->input({5, classes, 1, 1}, 1, 1), {})->output();
    const auto loss = on->softmax_cross_entropy(queue, logits);
    std::vector<float> plain = random_values(random, size);
    const std::vector<std::int32_t> labels{0, 1, 2, 3, classes - 1};
    plain[static_cast<std::size_t>(4 * classes)] = plain[size - 1] = 3;  // the first of equal ones counts
    plain[static_cast<std::size_t>(3 * classes + 3)] = 3;
    Buffer values = output_buffer(*on, queue, logits.floats),
           gradient = output_buffer(*on, queue, logits.floats);
    pack(*on, queue, logits, plain, values);
    Buffer placed(labels.size(), on->memory());
    queue.upload(labels.data(), placed.data(), placed.bytes());
    const auto* label = reinterpret_cast<const std::int32_t*>(placed.data());
    Buffer staged(sizeof(LossValue) / sizeof(float), on->staging());
    auto* value = reinterpret_cast<LossValue*>(staged.data());
    const auto evaluated = [&](int count) {
      loss->evaluate(values.data(), label, count, value);
      queue.wait();
      return *value;
    };
    loss->train(values.data(), label, gradient.data(), value);
    queue.wait();
    const LossValue all = *value;
    LossValue sum;
    for (int i = 0; i < 5; ++i) {
      const LossValue more = evaluated(i + 1);
      CHECK(more.sum > sum.sum);
      CHECK(more.correct >= sum.correct);
      sum = more;
    }
    CHECK(near(sum.sum, all.sum, 1e-12));
    CHECK(sum.correct == all.correct);
    CHECK(evaluated(0).sum == 0.0);
    std::vector<float> expected(size);
    const LossValue defined =
        reference::softmax_cross_entropy(plain.data(), labels.data(), classes, 5, expected.data());
    CHECK(near(all.sum, defined.sum, 1e-6));
    CHECK(all.correct == defined.correct);
    const std::vector<float> actual = unpack(*on, queue, logits, gradient);
    check_close(actual, expected);
  }
}

}  // namespace starling::kernels
