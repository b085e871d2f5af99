// Estimates of the memory that training needs, compared with what the network reports.
#include "training/learning/memory.h"

#include <string_view>

#include "kernels/by_name/backends.h"
#include "kernels/memory.h"
#include "models/network.h"
#include "tests/catch.h"
#include "training/learning/recipe.h"

namespace starling::training {
namespace {

struct Measured {
  std::size_t least, least_of_all, exact;  // least_of_all: without recomputation
};

Measured measured(const Experiment& experiment) {
  const auto plan = models::make_model(experiment.model.name, {3, 32, 32}, 10);
  REQUIRE(plan.ok());
  const auto backend = make_host_backend(experiment);
  REQUIRE(backend.ok());
  Experiment keeps_all = experiment;
  keeps_all.training.recompute = Recomputation::never;
  return {least_training_memory(experiment, *plan), least_training_memory(keeps_all, *plan),
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

TEST_CASE("a network that is made without memory has the sizes of one with memory") {
  for (const char* model : {"mlp", "lenet", "vgg-small", "resnet8", "gpt-tiny", "llama-tiny"}) {
    for (const int batch : {1, 33}) {
      for (const bool recompute : {false, true}) {
        INFO(model << ", batches of " << batch << ", recompute " << recompute);
        const bool text = std::string_view(model).ends_with("-tiny");
        const auto plan =
            models::make_model(model, text ? models::Shape{1, 1, 1, 1} : models::Shape{3, 32, 32}, 10);
        REQUIRE(plan.ok());
        for (const char* device : {"cpu", "reference"}) {
          const auto backend = kernels::make_backend(device);
          REQUIRE(backend.ok());
          const auto memory = [&] {
            return models::Network(*plan, **backend, batch, models::NetworkUse::train,
                                   {.recompute = recompute})
                .memory();
          };
          const auto expected = memory();
          const kernels::OnlySizes only_sizes;
          const auto found = memory();
          CHECK(found.activations_bytes == expected.activations_bytes);
          CHECK(found.gradients_bytes == expected.gradients_bytes);
          CHECK(found.workspace_bytes == expected.workspace_bytes);
          CHECK(found.scratch_bytes == expected.scratch_bytes);
        }
      }
    }
  }
}

}  // namespace starling::training
