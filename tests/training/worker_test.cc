#include "training/learning/worker.h"
#include "kernels/by_name/backends.h"
#include "tests/training/vectors.h"
#include "training/learning/evaluator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/catch.h"
#include "tests/training/near.h"

namespace starling::training {
namespace {

// Three classes of 6x6 images, each bright in its own two rows, with noise.
datasets::Dataset striped(std::size_t n, std::uint64_t seed) {
  datasets::Dataset data;
  data.shape = {1, 6, 6};
  data.classes = 3;
  data.normalization = {{0.4f, 0.25f}};
  Random random(seed);
  for (std::size_t i = 0; i < n; ++i) {
    const auto label = random.below(3);
    data.labels.push_back(static_cast<std::uint8_t>(label));
    for (std::uint64_t pixel = 0; pixel < 36; ++pixel) {
      const bool bright = pixel / 12 == label;
      data.images.push_back(static_cast<std::uint8_t>((bright ? 100 : 40) + random.below(120)));
    }
  }
  return data;
}

struct Trained {
  std::vector<float> parameters;
  double first_loss, last_loss;
};

Trained train(const kernels::Backend& backend, const models::Plan& plan, const datasets::Dataset& data,
              int steps, models::Arena::SgdStep step) {
  models::Arena arena(plan.layout.arena_size());
  std::vector<float> start(arena.size());
  models::initialize(plan, Random(3), start);
  arena.write(0, start);
  Worker worker(plan, backend, data, BatchSampler(all_of(data), Random(4)), {16, step});
  REQUIRE(worker.batch_size() == 16);
  Trained trained{};
  for (int i = 0; i < steps; ++i) {
    worker.feed(arena);
    trained.last_loss = worker.land().value();
    if (i == 0) trained.first_loss = trained.last_loss;
  }
  trained.parameters.assign(arena.data(), arena.data() + arena.size());
  return trained;
}

}  // namespace

TEST_CASE("a sampler returns every sample once in each epoch, each time in a new order") {
  std::vector<std::uint32_t> shard(10);
  std::iota(shard.begin(), shard.end(), 100u);
  BatchSampler sampler(shard, Random(1));
  std::vector<std::uint32_t> drawn;
  for (int i = 0; i < 10; ++i) {  // batches of 7 cross the ends of epochs
    std::vector<std::uint32_t> batch(7);
    sampler.next(batch);
    drawn.insert(drawn.end(), batch.begin(), batch.end());
  }
  std::vector<std::vector<std::uint32_t>> epochs;
  for (std::size_t start = 0; start < drawn.size(); start += 10) {
    epochs.emplace_back(drawn.begin() + static_cast<std::ptrdiff_t>(start),
                        drawn.begin() + static_cast<std::ptrdiff_t>(start) + 10);
    auto sorted = epochs.back();
    std::sort(sorted.begin(), sorted.end());
    REQUIRE(sorted == shard);
  }
  REQUIRE(epochs[0] != epochs[1]);
  REQUIRE(epochs[0] != shard);
}

TEST_CASE("a sampler is a function of its seed, and a batch may be larger than its shard") {
  const auto draw = [](std::uint64_t seed) {
    BatchSampler sampler({5, 6, 7}, Random(seed));
    std::vector<std::uint32_t> batch(31);
    sampler.next(batch);
    return batch;
  };
  REQUIRE(draw(1) == draw(1));
  REQUIRE(draw(1) != draw(2));
  const auto batch = draw(3);
  REQUIRE(std::count(batch.begin(), batch.end(), 6u) >= 10);
}

TEST_CASE("a worker learns a simple task on every back end, and identically each time") {
  const auto data = striped(600, 1), test = striped(300, 2);
  const auto plan = models::make_model("softmax", {1, 6, 6}, 3);
  REQUIRE(plan.ok());
  for (const char* name : {"reference", "cpu"}) {
    INFO(name);
    const auto backend = kernels::make_backend(name);
    REQUIRE(backend.ok());
    for (const bool nesterov : {false, true}) {
      const models::Arena::SgdStep step{
          .learning_rate = 0.02f, .momentum = 0.9f, .weight_decay = 1e-3f, .nesterov = nesterov};
      const Trained trained = train(**backend, *plan, data, 150, step);
      REQUIRE(trained.last_loss < trained.first_loss / 2);
      REQUIRE(trained.parameters == train(**backend, *plan, data, 150, step).parameters);

      Evaluator evaluator(*plan, **backend, test, 64);
      const auto score = evaluator.evaluate(trained.parameters.data());
      REQUIRE(score.accuracy > 0.95);
      REQUIRE(score.loss < 0.4);
    }
  }
}

namespace {

// The largest loss on all samples in the first steps of a worker whose moments are fresh, on parameters that
// another one has trained, as a multiple of the loss before.
double jump_of_a_newcomer(std::uint64_t warm_up) {
  auto data = striped(600, 1);
  Random noise(6);
  for (auto& label : data.labels)  // so that gradients remain
    if (noise.chance(0.3)) label = static_cast<std::uint8_t>(noise.below(3));
  const auto plan = models::make_model("mlp", {1, 6, 6}, 3);
  const auto backend = kernels::make_backend("cpu");
  const models::Arena::AdamWStep step{.learning_rate = 0.003F};
  models::Arena arena(plan->layout.arena_size());
  models::initialize(*plan, Random(3), arena);
  const auto make = [&](std::uint64_t seed) {
    return std::make_unique<Worker>(*plan, **backend, data, BatchSampler(all_of(data), Random(seed)),
                                    WorkerOptions{.batch_size = 16, .optimizer = step, .warm_up = warm_up});
  };
  const auto first = make(4);
  for (int k = 0; k < 1000; ++k) {
    first->feed(arena);
    first->land();
  }
  Evaluator evaluator(*plan, **backend, data, 100);
  const double before = evaluator.evaluate(arena.data()).loss;
  const auto newcomer = make(5);
  newcomer->renew();
  double largest = before;
  for (int k = 0; k < 30; ++k) {
    newcomer->feed(arena);
    newcomer->land();
    largest = std::max(largest, evaluator.evaluate(arena.data()).loss);
  }
  return largest / before;
}

}  // namespace

TEST_CASE("the rate of a newcomer's AdamW rises, so its loss does not jump") {
  const double at_once = jump_of_a_newcomer(0), rising = jump_of_a_newcomer(100);
  CAPTURE(at_once, rising);
  CHECK(rising < 1.2);
  CHECK(at_once > 3 * rising);
}

TEST_CASE("a worker with AdamW learns the task, and resets its moments for other parameters") {
  const auto data = striped(600, 1);
  const auto plan = models::make_model("softmax", {1, 6, 6}, 3);
  const auto backend = kernels::make_backend("reference");
  const models::Arena::AdamWStep step{.learning_rate = 0.01f, .weight_decay = 1e-3f};
  const std::size_t n = plan->layout.arena_size();
  std::vector<float> start(n);
  models::initialize(*plan, Random(3), start);
  Worker worker(*plan, **backend, data, BatchSampler(all_of(data), Random(4)), {16, step});
  models::Arena arena(n);
  arena.write(0, start);
  worker.feed(arena);
  const double first = worker.land().value();
  // The first step of Adam is the learning rate for any gradient, except where the gradient is almost zero.
  std::vector<float> after(n);
  arena.read(0, after);
  for (std::size_t i = 0; i < n; ++i) REQUIRE(std::abs(after[i] - start[i]) < 0.0101f);
  double loss = first;
  for (int k = 0; k < 300; ++k) {
    worker.feed(arena);
    loss = worker.land().value();
  }
  REQUIRE(loss < first / 2);
  worker.renew();
  arena.write(0, start);
  worker.feed(arena);
  worker.land();
  arena.read(0, after);
  float largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(after[i] - start[i]));
  REQUIRE(largest > 0.0099f);
  REQUIRE(largest < 0.0101f);
}

TEST_CASE("a worker's step uses the learning rate times the factor of that step") {
  const auto data = striped(600, 1);
  const auto plan = models::make_model("softmax", {1, 6, 6}, 3);
  const auto backend = kernels::make_backend("reference");
  const std::size_t n = plan->layout.arena_size();
  std::vector<float> start(n);
  models::initialize(*plan, Random(3), start);
  for (const bool nesterov : {false, true}) {
    Worker worker(
        *plan, **backend, data, BatchSampler(all_of(data), Random(4)),
        {16, models::Arena::SgdStep{
                 .learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.1f, .nesterov = nesterov}});
    // Another worker on the same batches gives the gradient.
    Worker probe(*plan, **backend, data, BatchSampler(all_of(data), Random(4)),
                 {16, models::Arena::SgdStep{.learning_rate = 1}});
    models::Arena arena(n), scratch(n);
    arena.write(0, start);
    std::vector<double> v(n);
    for (int i = 0; i < 40; ++i) {
      const double factor = i % 5 == 4 ? 0 : 1.0 / (1 + i % 5);
      std::vector<float> before(n), moved(n), now(n);
      arena.read(0, before);
      scratch.write(0, before);
      probe.feed(scratch);
      probe.land();
      scratch.read(0, moved);
      worker.feed(arena);
      worker.set_rate([factor] { return factor; });
      worker.land();
      arena.read(0, now);
      if (factor == 0) REQUIRE(now == before);
      for (std::size_t j = 0; j < n; ++j) {
        const auto x = static_cast<double>(before[j]);
        const double g = x - static_cast<double>(moved[j]) + 0.1 * x;
        v[j] = 0.9 * v[j] + g;  // the velocity sums gradients and does not depend on the rate
        REQUIRE(
            near(static_cast<double>(now[j]), x - 0.05 * factor * (nesterov ? g + 0.9 * v[j] : v[j]), 1e-5));
      }
    }
  }
}

TEST_CASE("a step of AdamW, including its weight decay, is scaled as a whole") {
  const auto data = striped(600, 1);
  const auto plan = models::make_model("softmax", {1, 6, 6}, 3);
  const auto backend = kernels::make_backend("reference");
  const std::size_t n = plan->layout.arena_size();
  std::vector<float> start(n);
  models::initialize(*plan, Random(3), start);
  // The change by the last step; all others use the whole rate.
  const auto last_step = [&](int steps, double factor) {
    Worker worker(*plan, **backend, data, BatchSampler(all_of(data), Random(4)),
                  {16, models::Arena::AdamWStep{.learning_rate = 0.01f, .weight_decay = 0.5f}});
    models::Arena arena(n);
    arena.write(0, start);
    std::vector<float> before(n), now(n);
    for (int i = 0; i < steps; ++i) {
      arena.read(0, before);
      worker.feed(arena);
      if (i + 1 == steps) worker.set_rate([factor] { return factor; });
      worker.land();
    }
    arena.read(0, now);
    for (std::size_t j = 0; j < n; ++j) now[j] -= before[j];
    return now;
  };
  for (const int steps : {1, 2, 7}) {
    const auto whole = last_step(steps, 1), quarter = last_step(steps, 0.25), none = last_step(steps, 0);
    double way = 0;
    for (std::size_t j = 0; j < n; ++j) {
      REQUIRE(near(static_cast<double>(quarter[j]), static_cast<double>(whole[j]) / 4, 1e-7));
      REQUIRE(none[j] == 0);
      way += std::abs(static_cast<double>(whole[j]));
    }
    REQUIRE(way > 0.001 * static_cast<double>(n));
  }
}

namespace {

// The gradient of the probe's next batch at the arena's parameters: with rate 1 it is the step.
std::vector<double> probed(Worker& probe, const models::Arena& arena, models::Arena& scratch) {
  std::vector<float> before(arena.size()), moved(arena.size());
  arena.read(0, before);
  scratch.write(0, before);
  probe.feed(scratch);
  probe.land();
  scratch.read(0, moved);
  std::vector<double> gradient(arena.size());
  for (std::size_t j = 0; j < gradient.size(); ++j)
    gradient[j] = static_cast<double>(before[j]) - static_cast<double>(moved[j]);
  return gradient;
}

}  // namespace

TEST_CASE(
    "quasi-global momentum follows its formula: fixed between mixes, then set from the replica's motion") {
  const auto data = striped(600, 1);
  const auto plan = models::make_model("softmax", {1, 6, 6}, 3);
  const auto backend = kernels::make_backend("reference");
  const std::size_t n = plan->layout.arena_size();
  std::vector<float> start(n);
  models::initialize(*plan, Random(3), start);
  const models::Arena::SgdStep step{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 1e-3f};
  constexpr std::uint32_t kWorkers = 2;  // the other one is idle
  Worker worker(*plan, **backend, data, BatchSampler(all_of(data), Random(4)),
                {.batch_size = 16, .optimizer = step, .follow_swarm = kWorkers});
  // Another worker on the same batches gives the gradient.
  Worker probe(*plan, **backend, data, BatchSampler(all_of(data), Random(4)),
               {16, models::Arena::SgdStep{.learning_rate = 1}});

  models::Arena arena(n), scratch(n);
  arena.write(0, start);
  std::vector<double> x(start.begin(), start.end()), m(n, 0.0), last = x;
  Random random(9);
  int k = 0;
  double rates = 0;  // of those k steps
  for (int i = 0; i < 60; ++i) {
    if (i % 7 == 6) {  // an external mix, which is counted
      for (std::size_t j = 0; j < n; ++j) {
        const auto change = static_cast<float>(0.01 * random.normal());
        arena.add(j, std::span(&change, 1));
        x[j] += static_cast<double>(change);
      }
      for (std::uint64_t mixes = 1 + random.below(2); mixes > 0; --mixes) arena.count_mix();
      const double mu = 1 - std::pow(0.9, k);
      for (std::size_t j = 0; j < n; ++j) {
        m[j] = (1 - mu) * m[j] + mu * (last[j] - x[j]) / (rates * kWorkers);
        last[j] = x[j];
      }
      k = 0;
      rates = 0;
    }
    if (i == 40) {  // parameters of another peer: the state is reset
      worker.renew();
      std::fill(m.begin(), m.end(), 0.0);
      last = x;
      k = 0;
      rates = 0;
    }
    const std::vector<double> gradient = probed(probe, arena, scratch);
    worker.feed(arena);
    const double factor = i < 20 ? 1 : 1.0 / (1 + i % 3);  // of a schedule, later
    worker.set_rate([factor] { return factor; });
    worker.land();
    ++k;
    rates += 0.05 * factor;
    std::vector<float> now(n);
    arena.read(0, now);
    for (std::size_t j = 0; j < n; ++j) {
      x[j] -= 0.05 * factor * (0.9 * m[j] + gradient[j] + 1e-3 * x[j]);
      REQUIRE(near(static_cast<double>(now[j]), x[j], 1e-4));
    }
  }
}

TEST_CASE("all back ends give a worker the same path") {
  const auto data = striped(200, 1);
  const auto plan = models::make_model("softmax", {1, 6, 6}, 3);
  REQUIRE(plan.ok());
  const models::Arena::SgdStep step{.learning_rate = 0.02f, .momentum = 0.9f};
  const auto reference = train(**kernels::make_backend("reference"), *plan, data, 30, step);
  const auto cpu = train(**kernels::make_backend("cpu"), *plan, data, 30, step);
  for (std::size_t i = 0; i < cpu.parameters.size(); ++i) {
    REQUIRE(near(static_cast<double>(cpu.parameters[i]), static_cast<double>(reference.parameters[i]), 1e-4));
  }
}

TEST_CASE("weight decay without a gradient shrinks the parameters by its rate") {
  const auto data = striped(64, 1);
  const auto plan = models::make_model("softmax", {1, 6, 6}, 3);
  REQUIRE(plan.ok());
  const auto backend = kernels::make_backend("reference");
  REQUIRE(backend.ok());
  // One step each, with and without: the difference is learning_rate * weight_decay * x.
  const auto with = train(**backend, *plan, data, 1, {.learning_rate = 0.1f, .weight_decay = 0.5f});
  const auto without = train(**backend, *plan, data, 1, {.learning_rate = 0.1f});
  std::vector<float> start(plan->layout.arena_size());
  models::initialize(*plan, Random(3), start);
  for (std::size_t i = 0; i < start.size(); ++i) {
    REQUIRE(near(static_cast<double>(without.parameters[i] - with.parameters[i]),
                 0.05 * static_cast<double>(start[i]), 1e-6));
  }
}

TEST_CASE("an evaluation of a text is the mean over all of its tokens but the first") {
  constexpr std::size_t kContext = 64, kRest = 20;
  datasets::Dataset text;
  text.classes = 17;
  Random random(6);
  for (std::size_t i = 0; i <= 2 * kContext + kRest; ++i)
    text.tokens.push_back(static_cast<std::uint16_t>(random.below(17)));
  text.set_context(kContext, true);
  const auto plan = models::make_model("gpt-tiny", {1, 1, 1, kContext}, text.classes);
  REQUIRE(plan.ok());
  const auto backend = kernels::make_backend("cpu");
  REQUIRE(backend.ok());
  std::vector<float> parameters(plan->layout.arena_size());
  models::initialize(*plan, Random(8), parameters);
  // Window by window from the scores. What follows the text has no influence on them.
  models::Network network(*plan, **backend, 1, models::NetworkUse::evaluate);
  double loss = 0, correct = 0;
  for (std::size_t begin = 0; begin + 1 < text.tokens.size(); begin += kContext) {
    std::vector<float> inputs(kContext, 5), scores(kContext * 17);
    for (std::size_t i = 0; i < kContext && begin + i < text.tokens.size(); ++i)
      inputs[i] = static_cast<float>(text.tokens[begin + i]);
    network.score(parameters.data(), inputs.data(), 1, scores);
    for (std::size_t i = 0; i < kContext && begin + i + 1 < text.tokens.size(); ++i) {
      const auto own = std::span(scores).subspan(17 * i, 17);
      double sum = 0;
      for (const float score : own) sum += std::exp(static_cast<double>(score));
      const std::size_t label = text.tokens[begin + i + 1];
      loss += std::log(sum) - static_cast<double>(own[label]);
      correct += std::ranges::max_element(own) - own.begin() == static_cast<std::ptrdiff_t>(label) ? 1 : 0;
    }
  }
  constexpr double kLabels = 2 * kContext + kRest;
  for (const int batch : {1, 2, 3, 64}) {
    const auto score = Evaluator(*plan, **backend, text, batch).evaluate(parameters.data());
    CHECK(near(score.loss, loss / kLabels, 0, 1e-5));
    CHECK(near(score.accuracy, correct / kLabels, 0, 1e-12));
  }
}

TEST_CASE("an evaluation is the same for every batch size and reads at most its limit of samples") {
  const auto data = striped(103, 5);
  const auto plan = models::make_model("softmax", {1, 6, 6}, 3);
  REQUIRE(plan.ok());
  const auto backend = kernels::make_backend("cpu");
  REQUIRE(backend.ok());
  std::vector<float> parameters(plan->layout.arena_size());
  models::initialize(*plan, Random(8), parameters);

  Evaluator whole(*plan, **backend, data, 103), pieces(*plan, **backend, data, 10),
      wide(*plan, **backend, data, 250);
  const auto expected = whole.evaluate(parameters.data());
  for (Evaluator* evaluator : {&pieces, &wide}) {
    const auto score = evaluator->evaluate(parameters.data());
    REQUIRE(score.accuracy == expected.accuracy);
    REQUIRE(near(score.loss, expected.loss, 0, 1e-6));
  }

  auto head = data;
  head.images.resize(37 * 36);
  head.labels.resize(37);
  Evaluator of_head(*plan, **backend, head, 10);
  REQUIRE(pieces.evaluate(parameters.data(), 37).accuracy == of_head.evaluate(parameters.data()).accuracy);
  REQUIRE(
      near(pieces.evaluate(parameters.data(), 37).loss, of_head.evaluate(parameters.data()).loss, 0, 1e-6));
  REQUIRE(pieces.evaluate(parameters.data(), 0).accuracy == 0);
  REQUIRE(pieces.evaluate(parameters.data(), 0).loss == 0);
}

}  // namespace starling::training
