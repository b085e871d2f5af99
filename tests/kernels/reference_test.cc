// Checks the reference definitions against calculus: every backward loop is the derivative of its forward
// loop, in double, to seven digits.
#include <cmath>
#include <functional>

#include "kernels/reference/convolution.h"
#include "kernels/reference/dropout.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/norm.h"
#include "kernels/reference/pointwise.h"
#include "kernels/reference/pool.h"
#include "kernels/reference/softmax_cross_entropy.h"
#include "tests/catch.h"
#include "tests/kernels/calculus.h"
#include "tests/kernels/near.h"
#include "tests/kernels/run.h"

namespace starling::kernels::reference {
TEST_CASE("the reference convolution's backward passes are the derivative of its forward pass") {
  Random random(11);
  for (int round = 0; round < 20; ++round) {
    const int kernel = 1 + static_cast<int>(random.below(3)), stride = 1 + static_cast<int>(random.below(2));
    const int padding = static_cast<int>(random.below(static_cast<std::uint64_t>(kernel)));
    const int groups = 1 + static_cast<int>(random.below(2));
    const Shape in{2, groups * (1 + static_cast<int>(random.below(3))), 3 + static_cast<int>(random.below(3)),
                   4};
    // Sometimes the last rows and columns, fewer than the stride, are not read.
    const int more = static_cast<int>(random.below(2));
    const auto extent = [&](int size) {
      const int slack = size + 2 * padding - kernel;
      return slack / stride + (slack % stride != 0 ? more : 0) + 1;
    };
    const int out_channels = 2 * groups;
    const ConvolutionSpec it{out_channels,     kernel, stride, padding, extent(in.height),
                             extent(in.width), 0,      0,      groups};
    const Shape out = output_shape(it, in);
    Values x = draw(random, in.size()), y(out.size()), dy = draw(random, out.size()), dx(in.size());
    Values weight = draw(random, static_cast<std::size_t>(2 * in.channels * kernel * kernel)),
           bias = draw(random, static_cast<std::size_t>(out_channels));
    Values dweight(weight.size()), dbias(bias.size());
    const bool biased = round % 3 != 0;
    const auto f = [&] {
      convolution_forward(it, weight.data(), biased ? bias.data() : nullptr, read(x, in), write(y, out));
      return dot(y, dy);
    };
    convolution_backward_data(it, weight.data(), read(dy, out), write(dx, in));
    convolution_backward_weight(it, read(x, in), read(dy, out), dweight.data(),
                                biased ? dbias.data() : nullptr);
    check_derivative(x, dx, f);
    check_derivative(weight, dweight, f);
    check_derivative(bias, dbias, f);  // 0 if there is none
  }
}

TEST_CASE("the reference linear layer's backward passes are the derivative of its forward pass") {
  Random random(12);
  const Shape in{3, 2, 2, 3}, out{3, 5, 1, 1};
  const LinearSpec it{5, 0, 0};
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

TEST_CASE("the reference pools' and ReLU's backward passes are the derivatives of their forward passes") {
  Random random(13);
  const Shape in{2, 3, 5, 7};
  Values x = draw(random, in.size()), dx(in.size());
  for (const int size : {1, 2, 3}) {
    const Shape out = output_shape(AveragePoolSpec{size}, in);
    Values y(out.size()), dy = draw(random, out.size());
    average_pool_backward(AveragePoolSpec{size}, read(dy, out), write(dx, in));
    check_derivative(x, dx, [&] {
      average_pool_forward(AveragePoolSpec{size}, read(x, in), write(y, out));
      return dot(y, dy);
    });
    max_pool_backward(MaxPoolSpec{size}, read(x, in), read(dy, out), write(dx, in));
    check_derivative(x, dx, [&] {
      max_pool_forward(MaxPoolSpec{size}, read(x, in), write(y, out));
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

TEST_CASE("the reference's global pool, GELU and sums have the derivatives of their forward passes") {
  Random random(15);
  const Shape in{2, 3, 4, 5}, out = output_shape(GlobalAveragePoolSpec{}, in);
  REQUIRE(out == Shape{2, 3, 1, 1});
  Values x = draw(random, in.size()), dx(in.size()), means(out.size()), dmeans = draw(random, out.size());
  global_average_pool_backward(read(dmeans, out), write(dx, in));
  check_derivative(x, dx, [&] {
    global_average_pool_forward(read(x, in), write(means, out));
    return dot(means, dmeans);
  });
  for (double& value : x) value *= 4;
  Values y(in.size()), dy = draw(random, in.size());
  gelu_backward({}, read(x, in), read(dy, in), write(dx, in));
  check_derivative(x, dx, [&] {
    gelu_forward({}, read(x, in), write(y, in));
    return dot(y, dy);
  });
  for (const bool relu : {false, true}) {
    Values b = draw(random, in.size()), db(in.size());
    const auto f = [&] {
      sum_forward(read(x, in), read(b, in), relu, write(y, in));
      return dot(y, dy);
    };
    f();
    sum_backward(read(y, in), read(dy, in), relu, write(dx, in), write(db, in));
    check_derivative(x, dx, f);
    check_derivative(b, db, f);
  }
}

TEST_CASE("the reference normalizations' backward passes are the derivatives of their forward passes") {
  Random random(16);
  for (int round = 0; round < 12; ++round) {
    const int extent = 1 + static_cast<int>(random.below(3));
    const Shape in{2 + static_cast<int>(random.below(3)), 6, extent, extent};
    Values x = draw(random, in.size()), y(in.size()), dy = draw(random, in.size()), dx(in.size());
    Values scale = draw(random, 6), shift = draw(random, 6), dscale(6), dshift(6);
    Values mean = draw(random, 6), variance = draw(random, 6), mean_step(6), variance_step(6);
    std::function<double()> f;
    if (round % 2 == 0) {
      // A large epsilon, so that central differences are exact to seven digits even for few values.
      BatchNormSpec it{0, 0, 0, 0};
      it.epsilon = 0.01F;
      f = [=, &x, &y, &dy, &scale, &shift] {
        batch_norm_forward(it, scale.data(), shift.data(), read(x, in), write(y, in));
        return dot(y, dy);
      };
      batch_norm_backward(it, scale.data(), mean.data(), variance.data(), read(x, in), read(dy, in),
                          write(dx, in), dscale.data(), dshift.data(), mean_step.data(),
                          variance_step.data());
    } else {
      const GroupNormSpec it{round % 4 == 1 ? 3 : 1, 0, 0, 0.01F};
      f = [=, &x, &y, &dy, &scale, &shift] {
        group_norm_forward(it, scale.data(), shift.data(), read(x, in), write(y, in));
        return dot(y, dy);
      };
      group_norm_backward(it, scale.data(), read(x, in), read(dy, in), write(dx, in), dscale.data(),
                          dshift.data());
    }
    check_derivative(x, dx, f);
    check_derivative(scale, dscale, f);
    check_derivative(shift, dshift, f);
  }
}

TEST_CASE("batch normalization matches a manual calculation, including running moments") {
  // Channel 0: 1, 3, 5, 7, whose mean is 4, variance 5, unbiased 20/3. Channel 1: always 2.
  const Shape shape{2, 2, 1, 2};
  const Values x{1, 3, 2, 2, 5, 7, 2, 2}, scale{std::sqrt(5.0), 10}, shift{100, 1};
  const Values mean{2, 2}, variance{-1, 0.5};
  BatchNormSpec it{0, 0, 0, 0};
  it.epsilon = 1e-30F;
  it.momentum = 0.5F;
  Values y(8);
  batch_norm_forward(it, scale.data(), shift.data(), read(x, shape), write(y, shape));
  const Values expected{97, 99, 1, 1, 101, 103, 1, 1};
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(near(y[i], expected[i], 1e-12));

  const Values dy(8, 1.0);
  Values dx(8), dscale(2), dshift(2), mean_step(2), variance_step(2);
  batch_norm_backward(it, scale.data(), mean.data(), variance.data(), read(x, shape), read(dy, shape),
                      write(dx, shape), dscale.data(), dshift.data(), mean_step.data(), variance_step.data());
  CHECK(dshift == Values{4, 4});
  CHECK(near(mean_step[0], 0.5 * (4 - 2), 1e-12));
  CHECK(near(variance_step[0], 0.5 * (20.0 / 3 + 1), 1e-12));
  CHECK(mean_step[1] == 0);
  CHECK(variance_step[1] == -0.25);

  // Uses the running moments; a negative variance counts as 0.
  it.epsilon = 0.25F;
  batch_norm_apply(it, scale.data(), shift.data(), mean.data(), variance.data(), read(x, shape),
                   write(y, shape));
  CHECK(near(y[0], 100 + std::sqrt(5.0) * (1 - 2) / 0.5, 1e-12));
  CHECK(near(y[2], 1, 1e-12));
}

TEST_CASE("the unbiased variance of a single value is 0") {
  const Shape shape{1, 1, 1, 1};
  const Values x{3}, scale{2}, dy{1}, mean{1}, variance{4};
  Values dx(1), dscale(1), dshift(1), mean_step(1), variance_step(1);
  BatchNormSpec it{0, 0, 0, 0};
  batch_norm_backward(it, scale.data(), mean.data(), variance.data(), read(x, shape), read(dy, shape),
                      write(dx, shape), dscale.data(), dshift.data(), mean_step.data(), variance_step.data());
  CHECK(near(mean_step[0], 0.2, 1e-7));
  CHECK(near(variance_step[0], -0.4, 1e-7));
  CHECK(dx == Values{0});
}

TEST_CASE("layer normalization matches a manual calculation") {
  const Shape shape{1, 4, 1, 1};
  const Values x{1, 3, 5, 7}, scale{1, 1, 1, 2}, shift{0, 0, 0, 1};
  Values y(4);
  group_norm_forward(GroupNormSpec{1, 0, 0, 1e-30F}, scale.data(), shift.data(), read(x, shape),
                     write(y, shape));
  const double unit = 1 / std::sqrt(5.0);
  const Values expected{-3 * unit, -unit, unit, 2 * 3 * unit + 1};
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(near(y[i], expected[i], 1e-12));
}

TEST_CASE("the GELU approaches x at +infinity and 0 at -infinity, and matches known values") {
  const Shape shape{1, 4, 1, 1};
  const Values x{0, 1, -1, 40};
  Values y(4);
  gelu_forward({}, read(x, shape), write(y, shape));
  CHECK(y[0] == 0);
  CHECK(near(y[1], 0.8413447460685429, 1e-14));
  CHECK(near(y[2], -0.1586552539314571, 1e-14));
  CHECK(y[3] == 40);
}

TEST_CASE("dropout draws a new mask each time, preserves the mean, and reuses the mask backward") {
  const Shape shape{10, 10, 10, 10};
  Random random(17);
  for (const float rate : {0.0F, 0.1F, 0.5F, 0.9F}) {
    const DropoutSpec it{rate, 5};
    const Values ones(shape.size(), 1.0);
    std::vector<Values> draws(3, Values(shape.size()));
    for (std::uint64_t i = 0; i < 3; ++i) dropout(it, i, read(ones, shape), write(draws[i], shape));
    double kept[2] = {}, both = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      for (const int draw : {0, 1}) {
        const double value = draws[static_cast<std::size_t>(draw)][i];
        CHECK((value == 0 || near(value, 1 / (1.0 - rate), 1e-6)));
        kept[draw] += value != 0;
      }
      both += draws[0][i] != 0 && draws[1][i] != 0;
    }
    // Five standard deviations.
    const double share = 1.0 - rate, n = static_cast<double>(shape.size());
    for (const double count : kept) CHECK(std::abs(count - n * share) <= 5 * std::sqrt(n * share * rate));
    CHECK(std::abs(both - n * share * share) <= 5 * std::sqrt(n * share * share * (1 - share * share)));
    Values dx(shape.size());
    dropout(it, 1, read(ones, shape), write(dx, shape));
    CHECK(dx == draws[1]);
  }
}

TEST_CASE("dropout of some channels draws as of all of them") {
  const Shape all{3, 5, 2, 3}, some{3, 2, 2, 3};
  DropoutSpec it{0.5F, 5};
  Values whole(all.size()), slice(some.size());
  dropout(it, 4, read(Values(all.size(), 1.0), all), write(whole, all));
  it.first_channel = 2;
  it.all_channels = 5;
  dropout(it, 4, read(Values(some.size(), 1.0), some), write(slice, some));
  for (std::size_t n = 0; n < 3; ++n)
    for (std::size_t k = 0; k < 12; ++k) CHECK(slice[n * 12 + k] == whole[n * 30 + 12 + k]);
}

TEST_CASE("the softmax cross-entropy's gradient is that of the mean loss") {
  Random random(14);
  const int classes = 5, count = 4;
  Values logits = draw(random, classes * count), dlogits(logits.size());
  const std::vector<std::int32_t> labels{0, 4, 2, 2};
  softmax_cross_entropy(logits.data(), labels.data(), classes, count, dlogits.data());
  check_derivative(logits, dlogits, [&] {
    return softmax_cross_entropy<double>(logits.data(), labels.data(), classes, count, nullptr).sum / count;
  });
}

TEST_CASE("the softmax cross-entropy of equal logits is the logarithm of the number of classes") {
  const std::vector<float> logits(10, 2.0F);
  const std::int32_t label = 3;
  const LossValue value = softmax_cross_entropy<float>(logits.data(), &label, 10, 1, nullptr);
  CHECK(near(value.sum, std::log(10.0), 1e-12));
  CHECK(value.correct == 0);  // the tie goes to class 0
}

TEST_CASE("huge logits neither overflow the loss nor its gradient") {
  const std::vector<float> logits{3e38F, -3e38F, 0.0F};
  std::vector<float> dlogits(3);
  const std::int32_t label = 0;
  const LossValue value = softmax_cross_entropy(logits.data(), &label, 3, 1, dlogits.data());
  CHECK(near(value.sum, 0, 1e-12));
  CHECK(value.correct == 1);
  for (const float gradient : dlogits) CHECK(near(gradient, 0, 1e-12));
}

TEST_CASE("a convolution matches a manual calculation") {
  // 3x3 image 1..9, a 2x2 kernel (1 2; 3 4), bias 10: y[0,0] = 10 + 1*1 + 2*2 + 3*4 + 4*5 = 47.
  const ConvolutionSpec it{1, 2, 1, 0, 2, 2, 0, 0};
  const Values x{1, 2, 3, 4, 5, 6, 7, 8, 9}, weight{1, 2, 3, 4}, bias{10};
  const Shape in{1, 1, 3, 3}, out{1, 1, 2, 2};
  Values y(4);
  convolution_forward(it, weight.data(), bias.data(), read(x, in), write(y, out));
  CHECK(y == Values{47, 57, 77, 87});
}

TEST_CASE("a grouped, strided convolution without bias matches a manual calculation") {
  // Two separate channels, 1x1 kernel with stride 2 over 4x4: rows and columns 0 and 2, the last ones unread.
  const ConvolutionSpec it{2, 1, 2, 0, 2, 2, 0, kNone, 2};
  const Shape in{1, 2, 4, 4}, out{1, 2, 2, 2};
  REQUIRE(output_shape(it, in) == out);
  Values x(32), y(8), dx(32, 9.0);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  const Values weight{2, -1};
  convolution_forward<double>(it, weight.data(), nullptr, read(x, in), write(y, out));
  CHECK(y == Values{0, 4, 16, 20, -16, -18, -24, -26});
  const Values dy{1, 2, 3, 4, 5, 6, 7, 8};
  convolution_backward_data(it, weight.data(), read(dy, out), write(dx, in));
  CHECK(Values(dx.begin(), dx.begin() + 12) == Values{2, 0, 4, 0, 0, 0, 0, 0, 6, 0, 8, 0});
  CHECK(dx[31] == 0);
  Values dweight(2);
  convolution_backward_weight<double>(it, read(x, in), read(dy, out), dweight.data(), nullptr);
  CHECK(dweight == Values{0 + 4 + 24 + 40, 5 * 16 + 6 * 18 + 7 * 24 + 8 * 26});
}

}  // namespace starling::kernels::reference
