// Workers on threads: how many steps they make, when they stop, and where they run.
#include "node/trainer.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "datasets/glyphs.h"
#include "kernels/backend.h"
#include "tests/catch.h"
#include "training/recipe.h"

namespace starling::node {
namespace {

constexpr Duration kHour = std::chrono::hours(1);

// A small problem, its workers, and a count of the steps that were reported.
struct Bench {
  explicit Bench(std::uint32_t workers = 1) {
    experiment.model = "softmax";
    experiment.batch_size = 16;
    experiment.workers = workers;
    auto made_plan = training::make_plan(experiment, data.train);
    REQUIRE(made_plan.ok());
    plan = std::make_unique<models::Plan>(std::move(*made_plan));
    auto made_backend = kernels::make_backend("cpu");
    REQUIRE(made_backend.ok());
    backend = std::move(*made_backend);
    arena = std::make_unique<models::Arena>(plan->layout.arena_size());
    arena->write(0, training::first_parameters(*plan, 1));
  }

  void start(TrainerOptions options) {
    auto workers = training::make_workers(experiment, *plan, *backend, data.train, 0, 0);
    REQUIRE(workers.ok());
    trainer = std::make_unique<Trainer>(std::move(*workers), *arena, std::move(options), [this] {
      const std::lock_guard lock(mutex);
      ++reported;
      changed.notify_all();
    });
    trainer->start();
  }
  // Waits for that many reports.
  bool await(std::uint64_t steps) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), [&] { return reported >= steps; });
  }
  std::vector<float> parameters() const {
    std::vector<float> x(arena->size());
    arena->read(0, x);
    return x;
  }

  training::Experiment experiment;
  datasets::DataPair data = datasets::make_glyphs(1, 300, 50);
  std::unique_ptr<models::Plan> plan;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<models::Arena> arena;
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t reported = 0;
  std::unique_ptr<Trainer> trainer;
};

// What the kernel knows of a thread.
struct Seat {
  int niceness = 0;
  std::set<int> processors;
};

// Of all threads of this process, by id.
std::map<int, Seat> seats() {
  std::map<int, Seat> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    const int thread = std::stoi(entry.path().filename());
    std::string text;
    std::getline(std::ifstream(entry.path() / "stat"), text);
    // Behind the name in parentheses, which may hold anything, the niceness is the seventeenth word.
    std::istringstream words(text.substr(text.rfind(')') + 1));
    std::string word;
    for (int i = 0; i < 17; ++i) words >> word;
    Seat seat{.niceness = std::stoi(word), .processors = {}};
    cpu_set_t set;
    REQUIRE(::sched_getaffinity(thread, sizeof set, &set) == 0);
    for (int p = 0; p < CPU_SETSIZE; ++p) {
      if (CPU_ISSET(p, &set)) seat.processors.insert(p);
    }
    found[thread] = seat;
  }
  return found;
}

// Those of `now` that were not there before: the workers', once each has made its step of an hour.
std::vector<Seat> new_seats(const std::map<int, Seat>& before, const std::map<int, Seat>& now) {
  std::vector<Seat> fresh;
  for (const auto& [thread, seat] : now) {
    if (!before.contains(thread)) fresh.push_back(seat);
  }
  return fresh;
}

// A machine of this process's own, where no peer that happens to run has taken anything.
std::string own_machine() {
  return "starling-test-" + std::to_string(::getpid());
}

}  // namespace

TEST_CASE("several workers get a processor each, and all run behind the thread that started them") {
  const auto before = seats();
  const Seat mine = before.at(::gettid());
  Bench bench(2);
  bench.start({.pace = kHour, .slowdowns = {}, .machine = own_machine()});
  REQUIRE(bench.await(2));
  const auto now = seats();
  const auto workers = new_seats(before, now);
  REQUIRE(workers.size() == 2);
  for (const Seat& worker : workers) CHECK(worker.niceness == std::min(mine.niceness + kWorkerNiceness, 19));
  CHECK(now.at(::gettid()).niceness == mine.niceness);
  CHECK(now.at(::gettid()).processors == mine.processors);
  if (mine.processors.size() < 2) return;
  for (const Seat& worker : workers) {
    CHECK(worker.processors.size() == 1);
    CHECK(mine.processors.contains(*worker.processors.begin()));
  }
  CHECK(workers[0].processors != workers[1].processors);
}

TEST_CASE("a lone worker, more workers than processors, and a second peer are left to the kernel") {
  const auto before = seats();
  const Seat mine = before.at(::gettid());
  const auto all = static_cast<std::uint32_t>(mine.processors.size());
  const auto check_free = [&](std::uint32_t workers, std::uint32_t others = 0) {
    Bench bench(workers);
    bench.start({.pace = kHour, .slowdowns = {}, .machine = own_machine()});
    REQUIRE(bench.await(workers));
    const auto fresh = new_seats(before, seats());
    REQUIRE(fresh.size() == workers + others);
    CHECK(std::count_if(fresh.begin(), fresh.end(),
                        [&](const Seat& seat) { return seat.processors == mine.processors; }) >= workers);
  };
  check_free(1);
  if (all > 16) return;  // threads enough
  check_free(all + 1);
  if (all < 2) return;
  Bench first(all);
  first.start({.pace = kHour, .slowdowns = {}, .machine = own_machine()});
  REQUIRE(first.await(all));
  check_free(2, all);
}

TEST_CASE("workers change the shared parameters, count their steps and samples and report each step") {
  Bench bench(2);
  const auto before = bench.parameters();
  bench.start({});
  REQUIRE(bench.await(40));
  bench.trainer->stop();
  REQUIRE(bench.trainer->steps() >= 40);
  REQUIRE(bench.trainer->samples() == 16 * bench.trainer->steps());
  REQUIRE(bench.trainer->loss().has_value());
  REQUIRE(*bench.trainer->loss() > 0);
  REQUIRE(*bench.trainer->loss() < 3);  // ln 10 for the untrained
  REQUIRE_FALSE(bench.trainer->non_finite());
  REQUIRE(bench.parameters() != before);
}

TEST_CASE("steps go at the learning rate times the factor of the moment") {
  Bench bench;
  bench.start({});
  const auto await_new_steps = [&] { REQUIRE(bench.await(bench.trainer->steps() + 3)); };
  bench.trainer->set_rate_factor(0);
  await_new_steps();  // the one that was being added has landed
  const auto still = bench.parameters();
  await_new_steps();
  REQUIRE(bench.parameters() == still);
  bench.trainer->set_rate_factor(0.5);
  await_new_steps();
  REQUIRE(bench.parameters() != still);
  REQUIRE(bench.trainer->rate_factor() == 0.5);
}

TEST_CASE("before the first step there is no loss and nothing is counted") {
  Bench bench;
  Trainer idle({}, *bench.arena, {}, [] {});
  REQUIRE_FALSE(idle.loss().has_value());
  REQUIRE(idle.steps() == 0);
  idle.stop();
}

TEST_CASE("once stop returns neither the parameters nor the counts change any more") {
  for (int round = 0; round < 20; ++round) {
    Bench bench(2);
    bench.start({});
    REQUIRE(bench.await(1 + static_cast<std::uint64_t>(round)));
    bench.trainer->stop();
    const auto parameters = bench.parameters();
    const auto steps = bench.trainer->steps();
    const auto samples = bench.trainer->samples();
    bench.trainer->stop();  // harmless
    auto* trainer = bench.trainer.get();
    REQUIRE(trainer->steps() == steps);
    if (round % 2 == 0) bench.trainer->give_back();
    REQUIRE(trainer->steps() == steps);
    bench.trainer.reset();  // the threads end; whatever step was under way is thrown away
    REQUIRE(bench.parameters() == parameters);
    REQUIRE(bench.reported == steps);
    REQUIRE(samples == 16 * steps);
  }
}

TEST_CASE("a pace of an hour gives one step of each worker, and stopping does not wait for the next") {
  Bench bench(2);
  bench.start({kHour, {}});
  REQUIRE(bench.await(2));
  bench.trainer->stop();
  bench.trainer.reset();  // joins
  REQUIRE(bench.reported == 2);
}

TEST_CASE("a slowdown stretches the pace and not only the arithmetic") {
  Bench bench;
  bench.start({std::chrono::milliseconds(4), {{1e6, Duration{0}, {}}}});  // 4,000 s a step
  REQUIRE(bench.await(1));
  bench.trainer->stop();
  bench.trainer.reset();
  REQUIRE(bench.reported == 1);
}

TEST_CASE("a slowdown counts within its window alone, and factors of several multiply without overflow") {
  Bench bench;
  SECTION("not yet") {
    bench.start({Duration{0}, {{1e6, kHour, {}}}});
    REQUIRE(bench.await(20));
  }
  SECTION("an empty window") {
    bench.start({std::chrono::microseconds(1), {{1e6, Duration{0}, Duration{0}}}});
    REQUIRE(bench.await(20));
  }
  SECTION("several at once") {
    bench.start({kHour, {{1e6, Duration{0}, {}}, {1e6, Duration{0}, kHour}, {1e6, Duration{0}, {}}}});
    REQUIRE(bench.await(1));
    bench.trainer->stop();
    bench.trainer.reset();
    REQUIRE(bench.reported == 1);
  }
}

TEST_CASE("a loss that is not finite is noticed") {
  Bench bench;
  bench.arena->write(0, std::vector<float>(bench.arena->size(), std::numeric_limits<float>::quiet_NaN()));
  bench.start({});
  REQUIRE(bench.await(1));
  bench.trainer->stop();
  REQUIRE(bench.trainer->non_finite());
}

}  // namespace starling::node
