// The definitions against calculus: every backward loop is the derivative of its forward loop, in double, to
// seven digits.
#include <cmath>
#include <functional>

#include "kernels/reference/convolution.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/pool.h"
#include "kernels/reference/relu.h"
#include "kernels/reference/softmax_cross_entropy.h"
#include "tests/catch.h"
#include "tests/kernels/near.h"
#include "tests/kernels/run.h"

namespace starling::kernels::reference {
namespace {

using Values = std::vector<double>;

Values draw(Random& random, std::size_t n) {
  Values values(n);
  for (double& value : values) value = random.uniform(-1, 1);
  return values;
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// `derivative` against central differences of `f` at each element of `at`.
void check_derivative(Values& at, const Values& derivative, const std::function<double()>& f) {
  REQUIRE(at.size() == derivative.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double value = at[i], h = 1e-6;
    at[i] = value + h;
    const double up = f();
    at[i] = value - h;
    const double down = f();
    at[i] = value;
    REQUIRE(near((up - down) / (2 * h), derivative[i], 1e-7));
  }
}

Images<const double> read(const Values& values, const Shape& shape) {
  return images(values.data(), shape);
}
Images<double> write(Values& values, const Shape& shape) {
  return images(values.data(), shape);
}

}  // namespace

TEST_CASE("The reference convolution's backward passes are the derivative of its forward pass") {
  Random random(11);
  for (int round = 0; round < 20; ++round) {
    const int kernel = 1 + static_cast<int>(random.below(3)), stride = 1 + static_cast<int>(random.below(2));
    const int padding = static_cast<int>(random.below(static_cast<std::uint64_t>(kernel)));
    const Shape in{2, 1 + static_cast<int>(random.below(3)), 3 + static_cast<int>(random.below(3)), 4};
    const auto extent = [&](int size) {
      const int slack = size + 2 * padding - kernel;
      return slack / stride + 1 + (slack % stride != 0 ? 1 : 0);
    };
    const Convolution it{2, kernel, stride, padding, extent(in.height), extent(in.width), 0, 0};
    const Shape out = output_shape(it, in);
    Values x = draw(random, in.size()), y(out.size()), dy = draw(random, out.size()), dx(in.size());
    Values weight = draw(random, static_cast<std::size_t>(2 * in.channels * kernel * kernel)),
           bias = draw(random, 2);
    Values dweight(weight.size()), dbias(2);
    const auto f = [&] {
      convolution_forward(it, weight.data(), bias.data(), read(x, in), write(y, out));
      return dot(y, dy);
    };
    convolution_backward_data(it, weight.data(), read(dy, out), write(dx, in));
    convolution_backward_weight(it, read(x, in), read(dy, out), dweight.data(), dbias.data());
    check_derivative(x, dx, f);
    check_derivative(weight, dweight, f);
    check_derivative(bias, dbias, f);
  }
}

TEST_CASE("The reference linear layer's backward passes are the derivative of its forward pass") {
  Random random(12);
  const Shape in{3, 2, 2, 3}, out{3, 5, 1, 1};
  const Linear it{5, 0, 0};
  Values x = draw(random, in.size()), y(out.size()), dy = draw(random, out.size()), dx(in.size());
  Values weight = draw(random, 5 * 12), bias = draw(random, 5), dweight(weight.size()), dbias(5);
  const auto f = [&] {
    linear_forward(it, weight.data(), bias.data(), read(x, in), write(y, out));
    return dot(y, dy);
  };
  linear_backward_data(it, weight.data(), read(dy, out), write(dx, in));
  linear_backward_weight(it, read(x, in), read(dy, out), dweight.data(), dbias.data());
  check_derivative(x, dx, f);
  check_derivative(weight, dweight, f);
  check_derivative(bias, dbias, f);
}

TEST_CASE("The reference pools' and ReLU's backward passes are the derivatives of their forward passes") {
  Random random(13);
  const Shape in{2, 3, 5, 7};
  Values x = draw(random, in.size()), dx(in.size());
  for (const int size : {1, 2, 3}) {
    const Shape out = output_shape(AveragePool{size}, in);
    Values y(out.size()), dy = draw(random, out.size());
    average_pool_backward(AveragePool{size}, read(dy, out), write(dx, in));
    check_derivative(x, dx, [&] {
      average_pool_forward(AveragePool{size}, read(x, in), write(y, out));
      return dot(y, dy);
    });
    max_pool_backward(MaxPool{size}, read(x, in), read(dy, out), write(dx, in));
    check_derivative(x, dx, [&] {
      max_pool_forward(MaxPool{size}, read(x, in), write(y, out));
      return dot(y, dy);
    });
  }
  Values y(in.size()), dy = draw(random, in.size());
  const auto f = [&] {
    relu_forward(read(x, in), write(y, in));
    return dot(y, dy);
  };
  f();
  relu_backward(read(y, in), read(dy, in), write(dx, in));
  check_derivative(x, dx, f);
}

TEST_CASE("The softmax cross-entropy's gradient is that of the mean loss") {
  Random random(14);
  const int classes = 5, count = 4;
  Values logits = draw(random, classes * count), dlogits(logits.size());
  const std::vector<std::int32_t> labels{0, 4, 2, 2};
  softmax_cross_entropy(logits.data(), labels.data(), classes, count, dlogits.data());
  check_derivative(logits, dlogits, [&] {
    return softmax_cross_entropy<double>(logits.data(), labels.data(), classes, count, nullptr).sum / count;
  });
}

TEST_CASE("The softmax cross-entropy of equal logits is the logarithm of the number of classes") {
  const std::vector<float> logits(10, 2.0F);
  const std::int32_t label = 3;
  const LossValue value = softmax_cross_entropy<float>(logits.data(), &label, 10, 1, nullptr);
  CHECK(near(value.sum, std::log(10.0), 1e-12));
  CHECK(value.correct == 0);  // the tie goes to class 0
}

TEST_CASE("Huge logits neither overflow the loss nor its gradient") {
  const std::vector<float> logits{3e38F, -3e38F, 0.0F};
  std::vector<float> dlogits(3);
  const std::int32_t label = 0;
  const LossValue value = softmax_cross_entropy(logits.data(), &label, 3, 1, dlogits.data());
  CHECK(near(value.sum, 0, 1e-12));
  CHECK(value.correct == 1);
  for (const float gradient : dlogits) CHECK(near(gradient, 0, 1e-12));
}

TEST_CASE("A convolution worked out by hand comes out as on paper") {
  // 3x3 image 1..9, a 2x2 kernel (1 2; 3 4), bias 10: y[0,0] = 10 + 1*1 + 2*2 + 3*4 + 4*5 = 47.
  const Convolution it{1, 2, 1, 0, 2, 2, 0, 0};
  const Values x{1, 2, 3, 4, 5, 6, 7, 8, 9}, weight{1, 2, 3, 4}, bias{10};
  const Shape in{1, 1, 3, 3}, out{1, 1, 2, 2};
  Values y(4);
  convolution_forward(it, weight.data(), bias.data(), read(x, in), write(y, out));
  CHECK(y == Values{47, 57, 77, 87});
}

}  // namespace starling::kernels::reference
