// The first 20 losses of two Transformers, and the gradient of their first batch, compared with PyTorch's
// from the same parameters and batches. scripts/pytorch_text_losses.py printed the numbers with
// PyTorch 1.13.1 and defines how parameters and batches are drawn.
#include <cmath>
#include <vector>

#include "kernels/by_name/backends.h"
#include "models/arena.h"
#include "models/network.h"
#include "tests/catch.h"
#include "tests/kernels/near.h"
#include "tests/models/stream.h"
#include "tests/seeds.h"

namespace starling::models {
namespace {

constexpr int kTokens = 65, kContext = 64, kBatch = 12;

// Of a tensor's gradient: its norm, and its product with draws.
struct Mark {
  double norm, product;
};
struct Record {
  std::vector<double> losses;
  std::vector<Mark> gradient;
};

std::vector<float> drawn_parameters(const Layout& layout, Stream& stream) {
  std::vector<float> parameters(layout.arena_size());
  for (const Tensor& tensor : layout.tensors()) {
    const bool normal = tensor.start == Tensor::Start::normal;
    for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      parameters[i] = normal ? stream.uniform(tensor.bound * std::sqrt(3.0))
                             : static_cast<float>(tensor.bound + static_cast<double>(stream.uniform(0.1)));
    }
  }
  return parameters;
}

void draw_batch(Stream& stream, std::vector<float>& inputs, std::vector<std::int32_t>& labels) {
  inputs.clear();
  labels.clear();
  for (int n = 0; n < kBatch; ++n) {
    std::uint64_t token = stream.bits() % kTokens;
    for (int i = 0; i < kContext; ++i) {
      inputs.push_back(static_cast<float>(token));
      token = (3 * token + stream.bits() % 2) % kTokens;
      labels.push_back(static_cast<std::int32_t>(token));
    }
  }
}

std::vector<Mark> marks_of(const Layout& layout, const std::vector<float>& gradient) {
  Stream stream(2);
  std::vector<Mark> marks;
  for (const Tensor& tensor : layout.tensors()) {
    Mark mark{};
    for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      const auto value = static_cast<double>(gradient[i]);
      mark.norm += value * value;
      mark.product += value * static_cast<double>(stream.uniform(1));
    }
    mark.norm = std::sqrt(mark.norm);
    marks.push_back(mark);
  }
  return marks;
}

Record train(const Plan& plan, float rate, std::size_t steps, const std::string& backend_name) {
  const auto backend = std::move(kernels::make_backend(backend_name)).value();
  Stream stream(1);
  Arena arena(plan.layout.arena_size());
  arena.write(0, drawn_parameters(plan.layout, stream));
  Network network(plan, *backend, kBatch, NetworkUse::train);
  std::vector<float> gradient(arena.size()), velocity(plan.layout.trained_size()), inputs;
  std::vector<std::int32_t> labels;
  Record record;
  while (record.losses.size() < steps) {
    draw_batch(stream, inputs, labels);
    record.losses.push_back(network.train(arena.data(), inputs.data(), labels.data(), gradient.data()));
    if (record.gradient.empty()) record.gradient = marks_of(plan.layout, gradient);
    arena.sgd(std::span<const float>(gradient).first(velocity.size()), velocity,
              {.learning_rate = rate, .momentum = 0.9F});
  }
  return record;
}

// The reference is slow, so it makes fewer steps.
void check(const std::string& name, float rate, const Record& expected) {
  const Plan plan = std::move(make_model(name, {1, 1, 1, kContext}, kTokens)).value();
  REQUIRE(plan.layout.tensors().size() == expected.gradient.size());
  for (const std::string& on : kernels::backend_names()) {
    const Record actual =
        train(plan, rate, on == "reference" ? (all_seeds() ? 2 : 1) : expected.losses.size(), on);
    for (std::size_t step = 0; step < actual.losses.size(); ++step) {
      INFO(on << ", step " << step << ": " << actual.losses[step] << ", PyTorch's is "
              << expected.losses[step]);
      CHECK(near(actual.losses[step], expected.losses[step], 2e-5));
    }
    for (std::size_t i = 0; i < expected.gradient.size(); ++i) {
      INFO(on << ", " << plan.layout.tensors()[i].name);
      const Mark &ours = actual.gradient[i], &theirs = expected.gradient[i];
      CHECK(near(ours.norm, theirs.norm, 1e-4, theirs.norm));
      CHECK(near(ours.product, theirs.product, 1e-4, theirs.norm));
    }
  }
}

}  // namespace

TEST_CASE("a GPT's losses and gradients equal PyTorch's", "[figures]") {
  check(
      "gpt-tiny", 0.1F,
      {{4.2267566, 3.9223320, 3.4856718, 3.1847217, 2.8503206, 2.5443096, 2.2062197,
        1.9122747, 1.6037854, 1.3752337, 1.1910275, 1.0482098, 0.9831418, 0.9456254,
        0.8925483, 0.8841813, 0.8356426, 0.8381075, 0.8676073, 0.9178021},
       {{1.0274470e+00, -1.1888549e-01}, {2.9038255e-01, 3.3173325e-02},  {1.9264217e-03, 6.4890242e-04},
        {9.7268801e-02, 5.1433900e-02},  {2.7539705e-01, 7.7740725e-03},  {7.1760444e-03, -2.8879059e-03},
        {4.1223495e-01, 6.8993728e-04},  {1.1507081e+00, 2.2548352e-01},  {1.7043393e-03, -1.1051718e-03},
        {8.3419976e-02, 5.2603644e-02},  {2.3856560e-01, 6.6898373e-02},  {7.2979293e-03, 1.0275065e-03},
        {3.5659982e-01, 4.7124220e-02},  {1.0108751e+00, 5.9328506e-01},  {1.5899056e-03, -1.8203641e-03},
        {7.5285163e-02, 4.7951182e-02},  {2.1020714e-01, -1.7915926e-01}, {6.5873995e-03, -1.7983608e-03},
        {3.2108485e-01, 7.1713230e-02},  {8.9004535e-01, 5.3207213e-01},  {1.2803760e-03, -2.9453195e-04},
        {6.6344281e-02, 5.4736254e-02},  {1.9011784e-01, -6.9414734e-02}, {5.9381695e-03, 3.5793886e-03},
        {2.9261980e-01, -9.1867901e-02}, {8.1566479e-01, 1.1523015e+00},  {1.6498062e-02, -8.4199423e-03}}});
}

TEST_CASE("a Llama's losses and gradients equal PyTorch's", "[figures]") {
  check(
      "llama-tiny", 0.02F,
      {{4.2310796, 4.2033219, 4.1293631, 4.0441756, 3.9182136, 3.7631416, 3.6423016,
        3.4400871, 3.3197224, 3.0996683, 2.9187467, 2.7378976, 2.5862691, 2.4046915,
        2.2653296, 2.1136382, 1.9797168, 1.8419685, 1.7613034, 1.6532860},
       {{9.2028045e-01, -3.2763514e-01}, {3.6332439e-03, -8.8121237e-04}, {2.0522249e-01, -3.0865125e-03},
        {6.0460174e-01, 1.1746647e-01},  {4.3579507e-03, 4.0994166e-04},  {2.0293383e-01, -4.6115717e-02},
        {3.9505641e-01, 5.3122647e-01},  {3.7458312e-03, 2.1433981e-03},  {1.9353660e-01, 8.3630769e-02},
        {5.4562944e-01, -4.1994991e-01}, {3.4324246e-03, -7.1433265e-04}, {1.8420826e-01, 2.1389753e-01},
        {3.5676463e-01, -1.6920788e-01}, {3.5698335e-03, -1.8120360e-03}, {1.7185401e-01, -1.6985567e-01},
        {4.9442861e-01, -3.6968461e-02}, {3.2431990e-03, -4.1299791e-04}, {1.6731958e-01, 5.7230087e-02},
        {3.4035383e-01, 1.1303455e-01},  {2.9261223e-03, -1.4194546e-03}, {1.6269058e-01, 8.5590257e-02},
        {4.7045268e-01, -1.4566827e-01}, {2.9657313e-03, -6.3696127e-04}, {1.4968844e-01, -7.2210873e-02},
        {2.9615713e-01, -6.2643883e-02}, {1.8069410e-02, 2.0894279e-03},  {8.7703411e-01, -4.2869635e-01}}});
}

}  // namespace starling::models
