// Estimates of the memory that training needs, compared with what the network reports.
#include "training/learning/memory.h"

#include "kernels/cpu/onednn/version.h"
#include "tests/catch.h"
#include "training/learning/recipe.h"

namespace starling::training {
namespace {

struct Measured {
  std::size_t least, least_of_all, host, exact;  // least_of_all: without recomputation
};

Measured measured(const Experiment& experiment) {
  const auto plan = models::make_model(experiment.model.name, {3, 32, 32}, 10);
  REQUIRE(plan.ok());
  const auto backend = make_host_backend(experiment);
  REQUIRE(backend.ok());
  Experiment keeps_all = experiment;
  keeps_all.training.recompute = Recomputation::never;
  return {least_training_memory(experiment, *plan), least_training_memory(keeps_all, *plan),
          host_training_memory(experiment, *plan, **backend),
          training_memory(experiment, *plan, **backend).total()};
}

}  // namespace

TEST_CASE("the memory is at least the lower bound, and at most a multiple of that without recomputation") {
  for (const char* model : {"softmax", "mlp", "lenet", "vgg-small", "resnet8"}) {
    for (const std::uint32_t batch : {1, 64, 200}) {
      for (const bool recompute : {false, true}) {
        INFO(model << ", batches of " << batch << ", recompute " << recompute);
        Experiment experiment;
        experiment.model.name = model;
        experiment.training.batch_size = batch;
        experiment.training.workers = batch == 1 ? 3 : 1;
        experiment.training.recompute = recompute ? Recomputation::always : Recomputation::never;
        const Measured memory = measured(experiment);
        CHECK(memory.least <= memory.exact);
        CHECK(memory.exact <= kLeastMemoryMultiple * memory.least_of_all);
      }
    }
  }
}

TEST_CASE("the memory on the host is exact for small batches and within 5 % for large ones") {
  const double margin = kernels::cpu::has_winograd() ? 0.2 : 0.05;
  for (const char* model : {"mlp", "lenet", "resnet8"}) {
    for (const std::uint32_t batch : {1, 128, 129, 300}) {
      INFO(model << ", batches of " << batch);
      Experiment experiment;
      experiment.model.name = model;
      experiment.training.batch_size = batch;
      const Measured memory = measured(experiment);
      if (batch <= 128) CHECK(memory.host == memory.exact);
      CHECK(static_cast<double>(memory.host) == Approx(static_cast<double>(memory.exact)).epsilon(margin));
    }
  }
}

}  // namespace starling::training
