// The products of linear layers of networks for text, as the CPU back end computes them, beside oneDNN's: for
// layers of gpt-tiny and gpt-char, the speed of the forward pass and of both products of the backward pass,
// and the error of forward results.
//
//   product_bench [--rounds N] [--values normal|rectified|heavy]
//
// The back ends take turns; speeds are of the fastest of the rounds (50), since other work on the machine
// only slows them, in billions of operations per second on one core. Inputs are normal, or with negative
// values times 0.1 (rectified), or times exp(2 normal) (heavy). Errors are in units of 2^-24 times the norms
// of input and weights, root mean square and largest of 4,096 results:
//   768 x 128 to 512: forward 154.2 beside 113.1, backward 151.0 beside 109.7, error 0.38 2.29 beside
//   0.31 1.93
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "bench/arguments.h"
#include "kernels/buffer.h"
#include "kernels/cpu/backend.h"

namespace {

using namespace starling;
using namespace starling::kernels;

struct Layer {
  int tokens, in, out;
};
constexpr Layer kLayers[] = {{768, 128, 128},   {768, 128, 384},   {768, 128, 512},  {768, 512, 128},
                             {3072, 384, 1152}, {3072, 384, 1536}, {3072, 1536, 384}};

struct Settings {
  int rounds = 50;
  std::string values = "normal";
};

struct Data {
  Buffer x, weight, dy;
};
Data draw(const Layer& layer, const std::string& values) {
  Random random(1);
  const auto floats = [](int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  };
  Data data{Buffer(floats(layer.tokens, layer.in)), Buffer(floats(layer.out, layer.in)),
            Buffer(floats(layer.tokens, layer.out))};
  for (float& value : data.x.values()) {
    double x = random.normal();
    if (values == "rectified" && x < 0) x *= 0.1;
    if (values == "heavy") x *= std::exp(2 * random.normal());
    value = static_cast<float>(x);
  }
  for (float& value : data.weight.values()) value = static_cast<float>(0.02 * random.normal());
  for (float& value : data.dy.values()) value = static_cast<float>(1e-3 * random.normal());
  return data;
}

// A layer on one back end.
class Candidate {
 public:
  Candidate(cpu::Choice choice, const Layer& layer)
      : layer_(layer), backend_(cpu::make_backend(Precision::f32, choice)), queue_(backend_->make_queue()) {
    const OperationSpec spec[] = {LinearSpec{layer.out, 0, kNone, true}};
    const Activation input = backend_->input({layer.tokens, layer.in}, 1, 1);
    operation_ = backend_->make(*queue_, spec, input, {});
    y_ = Buffer(operation_->output().floats);
    dx_ = Buffer(input.floats);
    gradient_ = Buffer(static_cast<std::size_t>(layer.in) * static_cast<std::size_t>(layer.out));
    scratch_ = Buffer(operation_->scratch_floats());
    operation_->set_scratch(scratch_.data());
  }

  void round(Data& data) {
    const float* weight = data.weight.data();
    forward_ = std::min(forward_, seconds([&] { operation_->forward(weight, data.x.data(), y_.data()); }));
    backward_ = std::min(backward_, seconds([&] {
                           operation_->backward(weight, data.x.data(), y_.data(), data.dy.data(), dx_.data(),
                                                gradient_.data());
                         }));
  }
  double forward() const { return operations() / forward_ * 1e-9; }
  double backward() const { return 2 * operations() / backward_ * 1e-9; }

  // The error of the results of the first 64 tokens and features.
  struct Error {
    double mean = 0, largest = 0;
  };
  Error error(const Data& data) const {
    constexpr int kSide = 64;
    Error error;
    for (int n = 0; n < kSide; ++n) {
      for (int f = 0; f < kSide; ++f) {
        const float* x = data.x.data() + std::ptrdiff_t{n} * layer_.in;
        const float* w = data.weight.data() + std::ptrdiff_t{f} * layer_.in;
        double sum = 0, row = 0, column = 0;
        for (int k = 0; k < layer_.in; ++k) {
          const double a = x[k], b = w[k];
          sum += a * b;
          row += a * a;
          column += b * b;
        }
        const double y = y_.data()[std::ptrdiff_t{n} * layer_.out + f];
        const double units = std::abs(y - sum) / std::ldexp(std::sqrt(row * column), -24);
        error.mean += units * units / (kSide * kSide);
        error.largest = std::max(error.largest, units);
      }
    }
    error.mean = std::sqrt(error.mean);
    return error;
  }

 private:
  double operations() const { return 2.0 * layer_.tokens * layer_.in * layer_.out; }

  template <class F>
  static double seconds(const F& f) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    f();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  Layer layer_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Operation> operation_;
  Buffer y_, dx_, gradient_, scratch_;
  double forward_ = HUGE_VAL, backward_ = HUGE_VAL;
};

void measure(const Layer& layer, const Settings& settings) {
  Data data = draw(layer, settings.values);
  Candidate ours(cpu::Choice::automatic, layer), theirs(cpu::Choice::onednn, layer);
  for (int i = 0; i < settings.rounds; ++i) {
    ours.round(data);
    theirs.round(data);
  }
  const auto error = ours.error(data), beside = theirs.error(data);
  std::printf(
      "%d x %d to %d: forward %.1f beside %.1f, backward %.1f beside %.1f, error %.2f %.2f beside "
      "%.2f %.2f\n",
      layer.tokens, layer.in, layer.out, ours.forward(), theirs.forward(), ours.backward(), theirs.backward(),
      error.mean, error.largest, beside.mean, beside.largest);
  std::fflush(stdout);
}

// Reads a flag; false if the flag or its value is invalid.
bool set(Settings& settings, std::string_view flag, const std::string& value) {
  if (flag == "--values") {
    settings.values = value;
    return value == "normal" || value == "rectified" || value == "heavy";
  }
  const auto number = parse_number<int>(value);
  if (flag != "--rounds" || !number || *number < 1) return false;
  settings.rounds = *number;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  const auto names = bench::read_arguments(
      "product_bench", argc, argv,
      [&](std::string_view flag, const char* value) { return set(settings, flag, value); });
  if (!names || !names->empty()) return 2;
  for (const Layer& layer : kLayers) measure(layer, settings);
  return 0;
}
