// Random problems for back ends: inputs, and specs with parameters that fit them.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "tests/kernels/run.h"

namespace starling::kernels {

inline int between(Random& random, int low, int high) {
  return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}

// `window`: the input is a window of larger images, as a network's input can be.
inline Problem images_problem(Random& random, int channels, int height, int width, bool window) {
  Problem problem;
  problem.height = height;
  problem.width = width;
  problem.stored = {between(random, 1, 20), channels, height + (window ? between(random, 0, 3) : 0),
                    width + (window ? between(random, 0, 3) : 0)};
  problem.x = random_values(random, problem.stored.size());
  return problem;
}

// Random dy for the output of the specs.
inline void finish(Random& random, Problem& problem) {
  Shape shape{problem.stored.batch, problem.stored.channels, problem.height, problem.width};
  for (const OperationSpec& spec : problem.specs) shape = output_shape(spec, shape);
  problem.dy = random_values(random, shape.size());
}

inline OperationSpec convolution(Random& random, Problem& problem, const Shape& in, int out, int kernel,
                                 int stride, int padding, int groups = 1, bool biased = true) {
  const Place place = add_parameters(random, problem.parameters, static_cast<std::size_t>(out),
                                     static_cast<std::size_t>(in.channels / groups * kernel * kernel));
  const auto extent = [&](int size) {  // the fewest outputs that read the whole input
    return std::max(1, (size + padding - kernel + stride - 1) / stride + 1);
  };
  // Sometimes one more full padding at the end.
  const int more = stride == 1 && random.chance(0.5) ? padding : 0;
  return ConvolutionSpec{out,
                         kernel,
                         stride,
                         padding,
                         extent(in.height) + more,
                         extent(in.width) + more,
                         place.weight,
                         biased ? place.bias : kNone,
                         groups};
}

inline OperationSpec linear(Random& random, Problem& problem, const Shape& in, int out) {
  const Place place =
      add_parameters(random, problem.parameters, static_cast<std::size_t>(out), in.sample_size());
  return LinearSpec{out, place.weight, place.bias};
}

inline OperationSpec batch_norm(Random& random, Problem& problem, int channels) {
  const NormPlace place = add_norm_parameters(random, problem.parameters, static_cast<std::size_t>(channels));
  return BatchNormSpec{place.scale,
                       place.shift,
                       place.mean,
                       place.variance,
                       random.chance(0.5) ? 1e-5F : 1e-2F,
                       static_cast<float>(random.uniform(0.05, 0.5))};
}

// A random number of groups that divides the channels.
inline OperationSpec group_norm(Random& random, Problem& problem, int channels) {
  const NormPlace place = add_norm_parameters(random, problem.parameters, static_cast<std::size_t>(channels));
  int groups = between(random, 1, channels);
  while (channels % groups != 0) --groups;
  return GroupNormSpec{groups, place.scale, place.shift, random.chance(0.5) ? 1e-5F : 1e-2F};
}

// A random shape-preserving operation, and its name for failure messages.
inline std::pair<OperationSpec, const char*> shape_keeper(Random& random, Problem& problem, int kind,
                                                          int channels) {
  switch (kind) {
    case 0:
      return {batch_norm(random, problem, channels), "batch norm "};
    case 1:
      return {group_norm(random, problem, channels), "group norm "};
    case 2:
      return {GeluSpec{}, "gelu "};
    case 3:
      return {DropoutSpec{static_cast<float>(random.uniform(0, 0.9)), random.bits()}, "dropout "};
    default:
      return {ReluSpec{}, "relu "};
  }
}

// A growing network of random layers. Images have a height and width of at least `least_extent`, and a batch
// has 4 to `most_images` images.
struct RandomNetwork {
  Problem problem;
  Shape shape;       // of the current output
  std::string text;  // its layers' names, for failure messages

  RandomNetwork(Random& random, int least_extent, int most_images) {
    const int extent = between(random, least_extent, 9);
    problem = images_problem(random, between(random, 1, 4), extent, extent + between(random, 0, 2),
                             random.chance(0.3));
    problem.stored.batch = between(random, 4, most_images);
    problem.x = random_values(random, problem.stored.size());
    shape = {problem.stored.batch, problem.stored.channels, problem.height, problem.width};
  }

  void add(const OperationSpec& spec, const char* name) {
    problem.specs.push_back(spec);
    shape = output_shape(spec, shape);
    text += name;
  }

  // `kind` is 0 to 4, see shape_keeper(). Few values that are almost equal after other normalizations have a
  // tiny variance, which magnifies rounding errors; other kinds are used for them.
  void add_shape_keeper(Random& random, int kind) {
    const bool few = shape.height * shape.width < 4;
    const auto [spec, name] =
        shape_keeper(random, problem, few ? between(random, 2, 4) : kind, shape.channels);
    add(spec, name);
  }
};

}  // namespace starling::kernels
