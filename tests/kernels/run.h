// Runs a chain of specs on a back end, plain values in and plain values out, so that back ends can be
// compared.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"

namespace starling::kernels {

inline std::unique_ptr<Backend> backend(std::string_view name) {
  return std::move(make_backend(name)).value();
}

struct Problem {
  Shape stored;  // the input in memory, of which height x width are read
  int height, width;
  std::vector<OperationSpec> specs;
  std::vector<float> parameters, x, dy;  // dy of the last output
};

struct Outcome {
  Shape shape;
  std::vector<float> y, dx, gradient;
};

inline std::vector<float> random_values(Random& random, std::size_t n, double low = -1, double high = 1) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.uniform(low, high));
  return values;
}

// `twice` runs everything two times over the same memory, which must change nothing. dx holds the whole
// stored input, 0 where it is not read. What the operations should not touch of `gradient` stays 7.
inline Outcome run(const Backend& on, const Problem& problem, bool input_gradient = true, bool twice = true) {
  std::span<const OperationSpec> rest = problem.specs;
  Activation activation = on.input(problem.stored, problem.height, problem.width);
  std::vector<std::unique_ptr<Operation>> operations;
  std::vector<Activation> formats{activation};
  while (!rest.empty()) {
    operations.push_back(on.make(rest, activation, {true, input_gradient || !operations.empty()}));
    activation = operations.back()->output();
    formats.push_back(activation);
    rest = rest.subspan(static_cast<std::size_t>(operations.back()->covers()));
  }
  std::vector<Buffer> values, gradients;
  for (const Activation& format : formats) {
    values.emplace_back(format.floats);
    gradients.emplace_back(format.floats);
  }
  std::copy(problem.x.begin(), problem.x.end(), values[0].data());
  const std::size_t last = operations.size();
  Outcome outcome;
  outcome.shape = activation.shape;
  outcome.gradient.assign(problem.parameters.size(), 7.0F);
  for (int round = 0; round < (twice ? 2 : 1); ++round) {
    for (std::size_t i = 0; i < last; ++i) {
      operations[i]->forward(problem.parameters.data(), values[i].data(), values[i + 1].data());
    }
    on.pack(activation, problem.dy.data(), gradients[last].data());
    for (std::size_t i = last; i-- > 0;) {
      const bool wanted = input_gradient || i > 0;
      operations[i]->backward(problem.parameters.data(), values[i].data(), values[i + 1].data(),
                              gradients[i + 1].data(), wanted ? gradients[i].data() : nullptr,
                              outcome.gradient.data());
    }
  }
  outcome.y.resize(activation.shape.size());
  on.unpack(activation, values[last].data(), outcome.y.data());
  outcome.dx.assign(gradients[0].data(), gradients[0].data() + gradients[0].size());
  return outcome;
}

// Appends parameters for a layer of `out` x `in` weights and says where they lie; the gaps are on purpose.
struct Place {
  std::size_t weight, bias;
};
inline Place add_parameters(Random& random, std::vector<float>& parameters, std::size_t out, std::size_t in) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const auto append = [&](std::size_t n) {
    parameters.resize((parameters.size() + 15) / 16 * 16 + 16, 3.0F);
    const std::size_t at = parameters.size();
    const std::vector<float> values = random_values(random, n, -bound, bound);
    parameters.insert(parameters.end(), values.begin(), values.end());
    return at;
  };
  const std::size_t weight = append(out * in);
  return {weight, append(out)};
}

}  // namespace starling::kernels
