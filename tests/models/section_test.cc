// Sections: a network in several parts computes what it computes as a whole.
#include "models/section.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "kernels/buffer.h"
#include "models/network.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

namespace starling::models {
namespace {

// A network in sections, each of which passes values on and gradients back.
class InSections {
 public:
  // `cuts`: the first layers of all sections but the first.
  InSections(const Plan& plan, const kernels::Backend& on, int batch, const std::vector<int>& cuts)
      : queue_(on.make_queue()) {
    const Lowered lowered = lower(plan, 0);
    std::vector<Border> borders{batch_border(plan, lowered, on, batch)};
    for (std::size_t s = 0; s <= cuts.size(); ++s) {
      const int begin = s == 0 ? 0 : cuts[s - 1];
      const int end = s == cuts.size() ? static_cast<int>(plan.layers.size()) : cuts[s];
      sections_.emplace_back(plan, lowered, on, *queue_,
                             SectionOptions{.batch = batch, .begin = begin, .end = end, .inputs = borders});
      borders = sections_.back().outputs();
    }
    inputs_.resize(sections_.size());
    loss_ = on.softmax_cross_entropy(*queue_, borders.back().activation);
  }

  double train(const float* parameters, const Batch& batch, float* gradient, int predictions) {
    inputs_[0] = {batch.inputs.data()};
    for (std::size_t s = 0; s < sections_.size(); ++s) {
      sections_[s].forward(parameters, inputs_[s]);
      std::vector<const float*> out;
      for (std::size_t k = 0; k < sections_[s].outputs().size(); ++k)
        out.push_back(sections_[s].output(k, inputs_[s]));
      if (s + 1 < sections_.size()) inputs_[s + 1] = out;
      if (s + 1 == sections_.size()) {
        kernels::LossValue value;
        loss_->train(out[0], batch.labels.data(), sections_[s].output_gradient(0), &value);
        loss_sum_ = value.sum;
      }
    }
    for (std::size_t s = sections_.size(); s-- > 0;) {
      sections_[s].backward(parameters, inputs_[s], gradient);
      if (s == 0) break;
      const auto& passed = sections_[s - 1].outputs();
      for (std::size_t k = 0; k < passed.size(); ++k) {
        const float* const back = sections_[s].input_gradient(k);
        REQUIRE((back != nullptr) == passed[k].trained);
        if (back != nullptr)
          std::copy_n(back, passed[k].activation.floats, sections_[s - 1].output_gradient(k));
      }
    }
    return loss_sum_ / predictions;
  }

 private:
  std::unique_ptr<kernels::Queue> queue_;
  std::vector<Section> sections_;
  std::vector<std::vector<const float*>> inputs_;
  std::unique_ptr<kernels::Loss> loss_;
  double loss_sum_ = 0;
};

// Between one and three different cuts.
std::vector<int> random_cuts(Random& random, int layers) {
  std::set<int> cuts;
  for (std::uint64_t k = 1 + random.below(3); k > 0 && layers > 1; --k)
    cuts.insert(1 + static_cast<int>(random.below(static_cast<std::uint64_t>(layers - 1))));
  return {cuts.begin(), cuts.end()};
}

std::vector<Plan> plans_of_all_kinds() {
  std::vector<Plan> plans = assorted_plans();
  plans.push_back(std::move(make_model("lenet", {1, 28, 28}, 10)).value());
  plans.push_back(std::move(make_model("resnet8", {3, 16, 16}, 10)).value());
  Spec text{"text", {1, 1, 1, 8}, {}};
  text.layers = {Embedding{12, 8, 9, 0.02},
                 Position{},
                 TransformerBlock{.heads = 2},
                 TransformerBlock{.heads = 2, .rms = true, .swiglu = true, .rotary = true},
                 LayerNorm{},
                 Linear{.features = 9, .tied = true}};
  plans.push_back(std::move(make_plan(std::move(text))).value());
  return plans;
}

Batch batch_for(Random& random, const Plan& plan, int batch) {
  if (plan.labels() == 1) return random_batch(random, plan, batch);
  Batch it;
  const auto tokens = static_cast<std::size_t>(batch * plan.labels());
  for (std::size_t i = 0; i < tokens; ++i) {
    it.inputs.push_back(static_cast<float>(random.below(static_cast<std::uint64_t>(plan.classes))));
    it.labels.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(plan.classes))));
  }
  return it;
}

}  // namespace

TEST_CASE("a network in sections has the loss and the gradient of the whole, bit by bit in reference") {
  Random random(3);
  constexpr int kBatch = 3;
  for (const std::string name : {"reference", "cpu"}) {
    for (const Plan& plan : plans_of_all_kinds()) {
      const std::size_t floats = plan.layout.arena_size();
      kernels::Buffer parameters(floats, backend(name).memory());
      initialize(plan, Random(7), parameters.values());
      Network whole(plan, backend(name), kBatch, NetworkUse::train);
      for (int attempt = 0; attempt < 6; ++attempt) {
        const auto cuts = random_cuts(random, static_cast<int>(plan.layers.size()));
        InSections parts(plan, backend(name), kBatch, cuts);
        INFO(plan.spec.name << " on " << name << ", " << cuts.size() << " cuts, the first at "
                            << cuts.front());
        const Batch batch = batch_for(random, plan, kBatch);
        kernels::Buffer expected(floats, backend(name).memory()), found(floats, backend(name).memory());
        const double loss =
            whole.train(parameters.data(), batch.inputs.data(), batch.labels.data(), expected.data());
        const double loss_of_parts =
            parts.train(parameters.data(), batch, found.data(), kBatch * plan.labels());
        double most = 0, largest = 0;
        for (std::size_t i = 0; i < floats; ++i) {
          most = std::max(most, std::abs(static_cast<double>(expected.values()[i]) -
                                         static_cast<double>(found.values()[i])));
          largest = std::max(largest, std::abs(static_cast<double>(expected.values()[i])));
        }
        if (name == "reference") {
          REQUIRE(loss == loss_of_parts);
          REQUIRE(most == 0);
        } else {
          REQUIRE(std::abs(loss - loss_of_parts) <= 1e-6 * std::abs(loss));
          REQUIRE(most <= 1e-6 * std::max(1.0, largest));
        }
        REQUIRE(largest > 0);
      }
    }
  }
}

TEST_CASE("a section's border has what later layers read, skip connections included") {
  const Plan plan =
      std::move(
          make_plan({"skip",
                     {2, 4, 4},
                     {Convolution{3, 3, 1, 1}, Residual{{Convolution{3, 3, 1, 1}, Relu{}}}, Linear{2}}}))
          .value();
  const Lowered lowered = lower(plan, 0);
  const auto& on = backend("reference");
  const auto queue = on.make_queue();
  const std::vector<Border> batch{batch_border(plan, lowered, on, 2)};
  CHECK_FALSE(batch[0].trained);
  Section first(plan, lowered, on, *queue, {.batch = 2, .begin = 0, .end = 2, .inputs = batch});
  REQUIRE(first.outputs().size() == 2);  // inside the residual block: its branch, and what is added
  CHECK(first.outputs()[0].layer == 0);
  CHECK(first.outputs()[1].layer == 1);
  Section second(plan, lowered, on, *queue, {.batch = 2, .begin = 2, .end = 4, .inputs = first.outputs()});
  REQUIRE(second.outputs().size() == 1);
  CHECK(second.outputs()[0].trained);
  CHECK(second.memory().activations_bytes > 0);
}

}  // namespace starling::models
