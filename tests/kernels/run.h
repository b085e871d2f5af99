// Runs a chain of specs on a back end with plain input and output values, to compare back ends.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kernels/buffer.h"
#include "kernels/by_name/backends.h"

namespace starling::kernels {

inline std::unique_ptr<Backend> backend(std::string_view name) {
  return std::move(make_backend(name)).value();
}

struct Problem {
  Shape stored;  // the stored input; only height x width of it are read
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

// Copies floats from host memory to a back end's and back.
inline Buffer put(const Backend& on, Queue& queue, const std::vector<float>& values) {
  Buffer buffer(values.size(), on.memory());
  queue.upload(values.data(), buffer.data(), buffer.bytes());
  queue.wait();
  return buffer;
}
inline std::vector<float> take(Queue& queue, const Buffer& buffer) {
  std::vector<float> values(buffer.size());
  queue.download(buffer.data(), values.data(), buffer.bytes());
  queue.wait();
  return values;
}

// Memory for an operation's output. On a device it is filled with NaN; on the host, block formats need zero
// padding.
inline Buffer output_buffer(const Backend& on, Queue& queue, std::size_t floats) {
  if (on.memory().on_host()) return Buffer(floats);
  return put(on, queue, std::vector<float>(floats, std::numeric_limits<float>::quiet_NaN()));
}

// A sequence of operations and the memory between them. All pointers are into the back end's memory.
class Chain {
 public:
  // `gradients_from`: the first operation that computes an input gradient, 0 or 1.
  Chain(const Backend& on, Queue& queue, std::span<const OperationSpec> rest, const Activation& input,
        bool training = true, std::size_t gradients_from = 0)
      : formats_{input} {
    while (!rest.empty()) {
      const bool input_gradient = training && operations_.size() >= gradients_from;
      operations_.push_back(on.make(queue, rest, formats_.back(), {training, input_gradient}));
      formats_.push_back(operations_.back()->output());
      rest = rest.subspan(static_cast<std::size_t>(operations_.back()->covers()));
    }
    for (const Activation& format : formats_) {
      values_.push_back(output_buffer(on, queue, format.floats));
      gradients_.push_back(output_buffer(on, queue, format.floats));
    }
    gradients_from_ = gradients_from;
    for (const auto& operation : operations_)
      scratch_.push_back(output_buffer(on, queue, operation->scratch_floats()));
    for (std::size_t i = 0; i < operations_.size(); ++i) operations_[i]->set_scratch(scratch_[i].data());
  }

  const Activation& input() const { return formats_.front(); }
  const Activation& output() const { return formats_.back(); }
  Buffer& x() { return values_.front(); }
  Buffer& y() { return values_.back(); }
  Buffer& dx() { return gradients_.front(); }
  Buffer& dy() { return gradients_.back(); }

  void forward(const float* parameters, bool again = false) {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (again) {
        operations_[i]->forward_again(parameters, values_[i].data(), values_[i + 1].data());
      } else {
        operations_[i]->forward(parameters, values_[i].data(), values_[i + 1].data());
      }
    }
  }
  void backward(const float* parameters, float* gradient) {
    for (std::size_t i = operations_.size(); i-- > 0;) {
      operations_[i]->backward(parameters, values_[i].data(), values_[i + 1].data(), gradients_[i + 1].data(),
                               i >= gradients_from_ ? gradients_[i].data() : nullptr, gradient);
    }
  }

 private:
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<Activation> formats_;
  std::vector<Buffer> values_, gradients_, scratch_;
  std::size_t gradients_from_;
};

inline std::vector<float> unpack(const Backend& on, Queue& queue, const Activation& activation,
                                 const Buffer& stored) {
  Buffer plain(activation.shape.size(), on.memory());
  on.unpack(queue, activation, stored.data(), plain.data());
  return take(queue, plain);
}
inline void pack(const Backend& on, Queue& queue, const Activation& activation,
                 const std::vector<float>& plain, Buffer& stored) {
  const Buffer values = put(on, queue, plain);
  on.pack(queue, activation, values.data(), stored.data());
  queue.wait();
}

// `twice` runs everything two times over the same memory, which must give the same results. dx covers the
// whole stored input, and is 0 where it is not read. Parts of `gradient` that the operations should not write
// stay 7.
inline Outcome run(const Backend& on, const Problem& problem, bool input_gradient = true, bool twice = true) {
  const auto queue = on.make_queue();
  Chain chain(on, *queue, problem.specs, on.input(problem.stored, problem.height, problem.width), true,
              input_gradient ? 0 : 1);
  const Buffer parameters = put(on, *queue, problem.parameters);
  Buffer gradient = put(on, *queue, std::vector<float>(problem.parameters.size(), 7.0F));
  queue->upload(problem.x.data(), chain.x().data(), problem.x.size() * sizeof(float));
  for (int round = 0; round < (twice ? 2 : 1); ++round) {
    chain.forward(parameters.data(), round > 0);
    pack(on, *queue, chain.output(), problem.dy, chain.dy());
    chain.backward(parameters.data(), gradient.data());
  }
  Outcome outcome;
  outcome.shape = chain.output().shape;
  outcome.y = unpack(on, *queue, chain.output(), chain.y());
  outcome.gradient = take(*queue, gradient);
  outcome.dx = take(*queue, chain.dx());
  return outcome;
}

// The same network built without a backward pass.
inline std::vector<float> evaluate(const Backend& on, const Problem& problem) {
  const auto queue = on.make_queue();
  Chain chain(on, *queue, problem.specs, on.input(problem.stored, problem.height, problem.width), false);
  const Buffer parameters = put(on, *queue, problem.parameters);
  queue->upload(problem.x.data(), chain.x().data(), problem.x.size() * sizeof(float));
  chain.forward(parameters.data());
  return unpack(on, *queue, chain.output(), chain.y());
}

// Appends parameters for a layer of `out` x `in` weights and returns their positions; the gaps are
// intentional.
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

// The same for a normalization: scale and running variance about 1, shift and running mean about 0.
struct NormPlace {
  std::size_t scale, shift, mean, variance;
};
inline NormPlace add_norm_parameters(Random& random, std::vector<float>& parameters, std::size_t channels) {
  const auto append = [&](double low, double high) {
    parameters.resize(parameters.size() + 16, 3.0F);
    const std::size_t at = parameters.size();
    const std::vector<float> values = random_values(random, channels, low, high);
    parameters.insert(parameters.end(), values.begin(), values.end());
    return at;
  };
  return {append(0.5, 1.5), append(-0.5, 0.5), append(-0.5, 0.5), append(-0.1, 2)};
}

}  // namespace starling::kernels
