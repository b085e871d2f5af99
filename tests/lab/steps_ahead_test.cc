// A step that is computed shortly before its end uses the values from its beginning.
#include "lab/simulate/steps_ahead.h"
#include "kernels/by_name/backends.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/seeds.h"

namespace starling::lab {
namespace {

using training::BatchSampler;

constexpr std::size_t kMachines = 12;
constexpr std::uint32_t kBatch = 4;
constexpr models::Arena::SgdStep kSgd{.learning_rate = 0.05F, .momentum = 0.9F};

datasets::Dataset noise(std::size_t n) {
  datasets::Dataset data;
  data.shape = {1, 4, 4};
  data.classes = 3;
  data.normalization = {{0.5F, 0.3F}};
  Random random(1);
  for (std::size_t i = 0; i < n; ++i) {
    data.labels.push_back(static_cast<std::uint8_t>(random.below(3)));
    for (int pixel = 0; pixel < 16; ++pixel)
      data.images.push_back(static_cast<std::uint8_t>(random.below(256)));
  }
  return data;
}

struct Site {
  datasets::Dataset data = noise(60);
  models::Plan plan = *models::make_model("softmax", {1, 4, 4}, 3);
  std::unique_ptr<kernels::Backend> backend = std::move(*kernels::make_backend("cpu"));
  std::vector<float> first = std::vector<float>(plan.layout.arena_size());

  Site() { models::initialize(plan, Random(2), first); }

  std::shared_ptr<Engines> engines() const {
    return std::make_shared<Engines>(plan, *backend, data, kBatch, models::NetworkOptions{});
  }
  std::unique_ptr<VirtualWorker> worker(std::size_t i, const std::shared_ptr<Engines>& engines) const {
    std::vector<std::uint32_t> shard(data.size());
    std::iota(shard.begin(), shard.end(), 0U);
    return std::make_unique<VirtualWorker>(
        plan, *backend, data,
        training::WorkerRecipe{BatchSampler(std::move(shard), Random(100 + i)), {kBatch, kSgd}}, engines);
  }
};

// A machine, and its reference, which computes every step when it begins.
struct Twin {
  models::Arena arena, wanted;
  std::unique_ptr<VirtualWorker> worker, eager;
  kernels::Buffer eager_gradient;
  StepsAhead& steps;
  StepsAhead::Step step{};
  Instant ends{};
  double wanted_loss = 0;

  Twin(const Site& site, std::size_t i, const std::shared_ptr<Engines>& engines, StepsAhead& its_steps)
      : arena(site.first.size()),
        wanted(site.first.size()),
        worker(site.worker(i, engines)),
        eager(site.worker(i, nullptr)),
        eager_gradient(site.first.size()),
        steps(its_steps) {
    arena.write(0, site.first);
    wanted.write(0, site.first);
  }
  ~Twin() { steps.drop(step); }
};

}  // namespace

TEST_CASE("steps computed ahead give the results of steps computed at their beginning, with few vectors") {
  const Site site;
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(1, 25));
  const unsigned threads = GENERATE(1U, 3U);
  const std::size_t ahead = 3;
  INFO("seed " << seed << ", threads " << threads);
  Random random(seed);
  ThreadPool pool(threads);
  StepsAhead steps(pool, ahead);
  const auto engines = site.engines();
  std::vector<std::unique_ptr<Twin>> twins;
  for (std::size_t i = 0; i < kMachines; ++i)
    twins.push_back(std::make_unique<Twin>(site, i, engines, steps));

  std::int64_t now = 0;
  std::size_t finished = 0, changed_beneath = 0;
  const auto copies = [&] {
    return std::count_if(twins.begin(), twins.end(), [](const auto& t) { return t->step.under_way(); });
  };
  while (finished < 200) {
    ++now;
    Twin& twin = *twins[random.below(kMachines)];
    if (!twin.step.under_way()) {
      twin.ends = Instant{Duration{now + static_cast<std::int64_t>(random.below(30))}};
      twin.wanted_loss = twin.eager->compute(twin.wanted.data(), twin.eager_gradient);
      steps.begin(twin.step, *twin.worker, twin.arena, twin.ends);
    } else if (random.chance(0.3)) {  // an exchange mixes
      const std::vector<float> delta(5, static_cast<float>(random.uniform(-0.1, 0.1)));
      const std::size_t offset = random.below(site.first.size() - delta.size());
      steps.keep(twin.step);
      twin.arena.add(offset, delta);
      twin.wanted.add(offset, delta);
      ++changed_beneath;
    } else if (twin.ends <= Instant{Duration{now}} || random.chance(0.05)) {
      if (random.chance(0.1)) {
        steps.drop(twin.step);  // the machine is gone, so its batch may or may not be drawn
        twin.worker = site.worker(kMachines + now, engines);
        twin.eager = site.worker(kMachines + now, nullptr);
      } else {
        REQUIRE(steps.finish(twin.step) == twin.wanted_loss);
        twin.worker->apply(twin.arena, twin.step.gradient(), 1);
        twin.eager->apply(twin.wanted, twin.eager_gradient.values(), 1);
        steps.done(twin.step);
        ++finished;
        REQUIRE(std::equal(twin.arena.data(), twin.arena.data() + twin.arena.size(), twin.wanted.data()));
      }
    }
    REQUIRE(steps.vectors_lent() <= static_cast<std::size_t>(copies()));
  }
  CHECK(changed_beneath > 20);
  for (auto& twin : twins) steps.drop(twin->step);
  CHECK(steps.vectors_lent() == 0);
}

TEST_CASE("among many steps in progress, only those that end next or whose replica changed hold a vector") {
  const Site site;
  ThreadPool pool(2);
  StepsAhead steps(pool, 3);
  const auto engines = site.engines();
  std::vector<std::unique_ptr<Twin>> twins;
  for (std::size_t i = 0; i < kMachines; ++i) {
    twins.push_back(std::make_unique<Twin>(site, i, engines, steps));
    steps.begin(twins[i]->step, *twins[i]->worker, twins[i]->arena,
                Instant{Duration{static_cast<std::int64_t>(100 + i)}});
  }
  CHECK(steps.vectors_lent() == 3);
  steps.keep(twins[5]->step);
  steps.keep(twins[5]->step);
  CHECK(steps.vectors_lent() == 4);
  // Three machines are paused past the ends of their steps; other steps are still computed ahead.
  for (std::size_t i = 3; i + 3 < kMachines; ++i) {
    steps.finish(twins[i]->step);
    steps.done(twins[i]->step);
    CHECK(steps.vectors_lent() == 3 + 3);
  }
  for (auto& twin : twins) steps.drop(twin->step);
  CHECK(steps.vectors_lent() == 0);
}

}  // namespace starling::lab
