// Every form of a network keeps the contract of a stream of batches.
#include "training/learning/batch_stream.h"

#include <memory>
#include <vector>

#include "datasets/glyphs.h"
#include "kernels/by_name/backends.h"
#include "tests/catch.h"
#include "tests/training/vectors.h"
#include "training/learning/worker.h"

namespace starling::training {
namespace {

constexpr std::uint32_t kBatchSize = 12;

struct StreamBench {
  datasets::Dataset data = datasets::make_glyphs(1, 90, 10).train;
  models::Plan plan = *models::make_model("mlp", {1, 28, 28}, 10);
  std::unique_ptr<kernels::Backend> backend = std::move(*kernels::make_backend("reference"));
  models::Arena arena{plan.layout.arena_size()};

  StreamBench() { models::initialize(plan, Random(3), arena); }

  std::unique_ptr<Worker> worker(const NetworkForm& form) const {
    WorkerOptions options{.batch_size = kBatchSize, .network = form};
    options.optimizer = models::Arena::SgdStep{.learning_rate = 0.05F, .momentum = 0.9F};
    return std::make_unique<Worker>(plan, *backend, data, BatchSampler(all_of(data), Random(4)), options);
  }
  std::vector<float> parameters() const { return {arena.data(), arena.data() + arena.size()}; }
};

StagedOptions stages(PipelineSchedule schedule) { return {.cuts = {2}, .schedule = schedule}; }

struct Form {
  const char* name;
  NetworkForm form;
  bool updates_meanwhile;
};
std::vector<Form> forms() {
  return {{"whole", models::NetworkOptions{}, false},
          {"stages with a flush", stages(PipelineSchedule::one_f_one_b), false},
          {"divided layers", SlicedOptions{.parts = 2}, false},
          {"stages without a flush", stages(PipelineSchedule::pipedream), true}};
}

}  // namespace

TEST_CASE("in every form each batch that is fed lands once, with its own factor of the learning rate") {
  for (const Form& form : forms()) {
    INFO(form.name);
    StreamBench bench;
    const auto worker = bench.worker(form.form);
    int asked = 0, landed = 0;
    worker->set_rate([&] {
      ++asked;
      return 0.5;
    });
    CHECK(worker->updates_meanwhile() == form.updates_meanwhile);
    CHECK_FALSE(worker->land());
    const auto before = bench.parameters();
    for (int fed = 1; fed <= 5; ++fed) {
      REQUIRE_FALSE(worker->is_full());
      worker->feed(bench.arena);
      while (worker->is_full()) landed += worker->land() ? 1 : 0;
      CHECK(landed >= fed - (form.updates_meanwhile ? 1 : 0));
    }
    while (worker->land()) ++landed;
    CHECK(landed == 5);
    CHECK(asked == 5);
    CHECK_FALSE(worker->is_full());
    CHECK(bench.parameters() != before);
  }
}

TEST_CASE("the forms that hold one batch make the same steps, and change the arena only when it lands") {
  std::vector<std::vector<float>> ends;
  for (const Form& form : forms()) {
    if (form.updates_meanwhile) continue;
    INFO(form.name);
    StreamBench bench;
    const auto worker = bench.worker(form.form);
    for (int step = 0; step < 4; ++step) {
      const auto before = bench.parameters();
      worker->feed(bench.arena);
      CHECK(bench.parameters() == before);
      CHECK(worker->land().value() > 0);
      CHECK(bench.parameters() != before);
    }
    ends.push_back(bench.parameters());
  }
  REQUIRE(ends.size() == 3);
  CHECK(largest_difference(ends[1], ends[0]) < 1e-5);
  CHECK(largest_difference(ends[2], ends[0]) < 1e-5);
}

TEST_CASE("a batch that is dropped changes nothing, and a worker that resumes from there draws it again") {
  for (const Form& form : forms()) {
    if (form.updates_meanwhile) continue;
    INFO(form.name);
    StreamBench bench;
    const auto worker = bench.worker(form.form);
    worker->feed(bench.arena);
    worker->land();
    const WorkerState at_rest = worker->save(bench.arena);
    const auto before = bench.parameters();
    worker->feed(bench.arena);
    CHECK(worker->save(bench.arena) == at_rest);
    CHECK(worker->drop());
    CHECK_FALSE(worker->drop());
    CHECK(bench.parameters() == before);
    CHECK(worker->save(bench.arena) == at_rest);
    worker->feed(bench.arena);  // the batch after it
    worker->land();
    CHECK(worker->save(bench.arena).draws == 3);
  }
}

TEST_CASE("the gradient of a batch in flight can be replaced before it lands") {
  for (const Form& form : forms()) {
    if (form.updates_meanwhile) continue;
    INFO(form.name);
    StreamBench bench;
    const auto worker = bench.worker(form.form);
    const auto before = bench.parameters();
    worker->feed(bench.arena);
    CHECK(worker->gradient().size() == bench.arena.size());
    worker->replace_gradient(std::vector<float>(bench.arena.size()));
    const double loss = worker->loss();
    CHECK(worker->land().value() == loss);
    CHECK(bench.parameters() == before);
  }
}

}  // namespace starling::training
