// Every back end against the reference: the same random problems, the same answers.
#include <cmath>

#include "kernels/cpu/backend.h"
#include "kernels/reference/softmax_cross_entropy.h"
#include "tests/catch.h"
#include "tests/kernels/near.h"
#include "tests/kernels/run.h"

namespace starling::kernels {
namespace {

int between(Random& random, int low, int high) {
  return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}

// Float sums in another order differ by a few units in the last place of the largest partial sum.
void check_close(const std::vector<float>& actual, const std::vector<float>& expected) {
  REQUIRE(actual.size() == expected.size());
  double scale = 0;
  for (const float value : expected) scale = std::max(scale, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (near(actual[i], expected[i], 3e-5, scale + 1e-3)) continue;
    FAIL("element " << i << " of " << actual.size() << " is " << actual[i] << ", not " << expected[i]);
  }
}

// The ways in which the cpu back end may be asked to compute.
std::vector<std::unique_ptr<Backend>> candidates() {
  std::vector<std::unique_ptr<Backend>> list;
  for (const auto choice : {cpu::Choice::automatic, cpu::Choice::onednn, cpu::Choice::lanes}) {
    list.push_back(cpu::make_backend(choice));
  }
  return list;
}

void check_agreement(const Problem& problem, bool input_gradient, bool twice = true) {
  const Outcome expected = run(*backend("reference"), problem, input_gradient, false);
  int candidate = 0;
  for (const auto& on : candidates()) {
    INFO("candidate " << candidate++);
    const Outcome actual = run(*on, problem, input_gradient, twice);
    REQUIRE(actual.shape == expected.shape);
    check_close(actual.y, expected.y);
    check_close(actual.gradient, expected.gradient);
    if (input_gradient) check_close(actual.dx, expected.dx);
  }
}

// `window`: the input is part of larger images, as a network's input can be.
Problem images_problem(Random& random, int channels, int height, int width, bool window) {
  Problem problem;
  problem.height = height;
  problem.width = width;
  problem.stored = {between(random, 1, 20), channels, height + (window ? between(random, 0, 3) : 0),
                    width + (window ? between(random, 0, 3) : 0)};
  problem.x = random_values(random, problem.stored.size());
  return problem;
}

// Random dy for whatever the specs yield.
void finish(Random& random, Problem& problem) {
  Shape shape{problem.stored.batch, problem.stored.channels, problem.height, problem.width};
  for (const OperationSpec& spec : problem.specs) shape = output_shape(spec, shape);
  problem.dy = random_values(random, shape.size());
}

OperationSpec convolution(Random& random, Problem& problem, const Shape& in, int out, int kernel, int stride,
                          int padding) {
  const Place place = add_parameters(random, problem.parameters, static_cast<std::size_t>(out),
                                     static_cast<std::size_t>(in.channels * kernel * kernel));
  const auto extent = [&](int size) {  // the least number of outputs that reads all of it
    return std::max(1, (size + padding - kernel + stride - 1) / stride + 1);
  };
  // Padding at the end is one full padding now and then.
  const int more = stride == 1 && random.chance(0.5) ? padding : 0;
  return Convolution{
      out,          kernel,    stride, padding, extent(in.height) + more, extent(in.width) + more,
      place.weight, place.bias};
}

OperationSpec linear(Random& random, Problem& problem, const Shape& in, int out) {
  const Place place =
      add_parameters(random, problem.parameters, static_cast<std::size_t>(out), in.sample_size());
  return Linear{out, place.weight, place.bias};
}

}  // namespace

TEST_CASE("An unknown back end is refused with the names that are accepted") {
  const auto result = make_backend("abacus");
  REQUIRE(!result.ok());
  CHECK(result.error().message == "there is no back end \"abacus\"; accepted are cpu or reference");
  for (const std::string& name : backend_names()) CHECK(backend(name)->name() == name);
}

TEST_CASE("Convolutions of every shape agree with the reference") {
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
    if (random.chance(0.5)) problem.specs.push_back(Relu{});
    if (random.chance(0.3)) problem.specs.push_back(AveragePool{1});
    INFO("round " << round << ", kernel " << kernel << ", stride " << stride << ", padding " << padding
                  << ", " << channels << " to " << out << " channels, " << in.height << "x" << in.width
                  << ", batch " << in.batch);
    finish(random, problem);
    check_agreement(problem, random.chance(0.7));
  }
}

TEST_CASE("Linear layers of every shape agree with the reference") {
  Random random(22);
  for (int round = 0; round < 60; ++round) {
    Problem problem =
        images_problem(random, between(random, 1, 40), between(random, 1, 4), between(random, 1, 4), false);
    const Shape in{problem.stored.batch, problem.stored.channels, problem.height, problem.width};
    const int out = between(random, 1, 70);
    problem.specs.push_back(linear(random, problem, in, out));
    if (random.chance(0.5)) problem.specs.push_back(Relu{});
    INFO("round " << round << ", " << in.sample_size() << " to " << out << ", batch " << in.batch);
    finish(random, problem);
    check_agreement(problem, random.chance(0.7));
  }
}

TEST_CASE("Pools and ReLUs of every shape agree with the reference") {
  Random random(23);
  for (int round = 0; round < 90; ++round) {
    const int size = between(random, 1, 3);
    Problem problem = images_problem(random, between(random, 1, 21), between(random, size, 9),
                                     between(random, size, 9), random.chance(0.3));
    if (round % 3 == 0) problem.specs.push_back(AveragePool{size});
    if (round % 3 == 1) problem.specs.push_back(MaxPool{size});
    if (round % 3 == 2) problem.specs.push_back(Relu{});
    INFO("round " << round << ", size " << size << ", " << problem.height << "x" << problem.width);
    finish(random, problem);
    check_agreement(problem, true);
  }
}

TEST_CASE(
    "Chains of operations agree with the reference, whatever is fused and whatever formats lie between") {
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
        add(AveragePool{2});
        text += "average ";
      } else if (kind == 2 && shape.height > 1 && shape.width > 1) {
        add(MaxPool{2});
        text += "max ";
      } else if (kind == 3 && i + 3 > length) {
        add(linear(random, problem, shape, between(random, 1, 20)));
        text += "linear ";
      } else {
        add(Relu{});
        text += "relu ";
      }
    }
    INFO("round " << round << ": " << text);
    finish(random, problem);
    check_agreement(problem, true);
  }
}

TEST_CASE("LeNet's own layers agree with the reference") {
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
  add(Relu{});
  add(AveragePool{2});
  add(convolution(random, problem, shape, 50, 5, 1, 0));
  add(Relu{});
  add(AveragePool{2});
  add(linear(random, problem, shape, 128));
  add(Relu{});
  add(linear(random, problem, shape, 10));
  REQUIRE(shape == Shape{64, 10, 1, 1});
  finish(random, problem);
  check_agreement(problem, false, false);
}

TEST_CASE("The loss of every back end counts only the first samples of a batch when it evaluates") {
  Random random(26);
  auto backends = candidates();
  backends.push_back(backend("reference"));
  for (const auto& on : backends) {
    // The logits are whatever format a ReLU leaves them in.
    const OperationSpec relu[] = {Relu{}};
    const Activation logits = on->make(relu, on->input({5, 4, 1, 1}, 1, 1), {})->output();
    const auto loss = on->softmax_cross_entropy(logits);
    const std::vector<float> plain = random_values(random, 20);
    const std::vector<std::int32_t> labels{0, 1, 2, 3, 0};
    Buffer values(logits.floats), gradient(logits.floats);
    on->pack(logits, plain.data(), values.data());
    const LossValue all = loss->train(values.data(), labels.data(), gradient.data());
    LossValue sum;
    for (int i = 0; i < 5; ++i) {
      const LossValue more = loss->evaluate(values.data(), labels.data(), i + 1);
      CHECK(more.sum > sum.sum);
      CHECK(more.correct >= sum.correct);
      sum = more;
    }
    CHECK(near(sum.sum, all.sum, 1e-12));
    CHECK(sum.correct == all.correct);
    CHECK(loss->evaluate(values.data(), labels.data(), 0).sum == 0.0);
    std::vector<float> expected(20), actual(20);
    reference::softmax_cross_entropy(plain.data(), labels.data(), 4, 5, expected.data());
    on->unpack(logits, gradient.data(), actual.data());
    check_close(actual, expected);
  }
}

}  // namespace starling::kernels
