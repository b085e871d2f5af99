// Workers on threads: how many steps they make, when they stop, and where they run.
#include "node/work/trainer.h"
#include "kernels/backends.h"

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
#include "tests/catch.h"
#include "tests/kernels/gpu.h"
#include "training/replica/recipe.h"

namespace starling::node {
namespace {

constexpr Duration kHour = std::chrono::hours(1);

// Kernels of an emulated GPU race where a GPU's do, on the arena, and ThreadSanitizer sees them.
#if defined(__SANITIZE_THREAD__)
constexpr bool kRacesAreSeen = true;
#else
constexpr bool kRacesAreSeen = false;
#endif

// A small problem, its workers, and a count of the steps that were reported.
struct Bench {
  explicit Bench(std::uint32_t workers = 1, std::unique_ptr<kernels::Backend> on = nullptr) {
    experiment.model = "softmax";
    experiment.batch_size = 16;
    experiment.workers = workers;
    auto made_plan = training::make_plan(experiment, data.train);
    REQUIRE(made_plan.ok());
    plan = std::make_unique<models::Plan>(std::move(*made_plan));
    backend = on ? std::move(on) : std::move(*kernels::make_backend("cpu"));
    arena = std::make_unique<models::Arena>(plan->layout.arena_size(), *backend);
    arena->write(0, training::first_parameters(*plan, 1));
  }

  // With `devices`, a group of so many, all of them the back end.
  void start(TrainerOptions options, std::uint32_t devices = 1) {
    std::vector<std::unique_ptr<training::Worker>> all;
    for (std::uint32_t device = 0; device < devices; ++device) {
      auto workers = training::make_workers(experiment, *plan, *backend, data.train, 0, 0, device);
      REQUIRE(workers.ok());
      for (auto& worker : *workers) all.push_back(std::move(worker));
    }
    if (devices > 1) {
      const std::vector<const kernels::Backend*> backends(devices, backend.get());
      group = std::make_unique<training::DeviceGroup>(*arena, backends);
    }
    const auto stepped = [this] {
      const std::lock_guard lock(mutex);
      ++reported;
      changed.notify_all();
    };
    trainer = std::make_unique<Trainer>(std::move(all), *arena, std::move(options), stepped, group.get());
    if (restored != nullptr) lost = trainer->restore(*restored);
    trainer->start();
  }
  void pause_and_discard() {
    trainer->pause(PausedBy::core);
    trainer->discard_steps();
  }
  void renew_and_resume() {
    trainer->renew();
    trainer->resume(PausedBy::core);
  }
  // Waits for that many reports.
  bool await(std::uint64_t steps) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), [&] { return reported >= steps; });
  }
  // Until so many steps have begun, whether they land or not.
  bool await_begun(std::uint64_t steps) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (trainer->steps_begun() < steps && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    return trainer->steps_begun() >= steps;
  }
  std::vector<float> parameters() const { return contents(*arena); }
  static std::vector<float> contents(models::Arena& it) {
    std::vector<float> x(it.size());
    it.wait();
    it.read(0, x);
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
  const training::PeerState* restored = nullptr;  // that it goes on from
  std::vector<std::string> lost;                  // of that
  std::unique_ptr<training::DeviceGroup> group;
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

// Those of `now` that were not there before: the workers', once each has begun its step of an hour.
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

TEST_CASE(
    "several workers get a processor each, and all run at a lower priority than the thread that started "
    "them") {
  const auto before = seats();
  const Seat mine = before.at(::gettid());
  Bench bench(2);
  bench.start({.pace = kHour, .slowdowns = {}, .machine = own_machine()});
  REQUIRE(bench.await_begun(2));
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

TEST_CASE("a single worker, more workers than processors, and a second peer are not pinned") {
  const auto before = seats();
  const Seat mine = before.at(::gettid());
  const auto all = static_cast<std::uint32_t>(mine.processors.size());
  const auto check_free = [&](std::uint32_t workers, std::uint32_t others = 0) {
    Bench bench(workers);
    bench.start({.pace = kHour, .slowdowns = {}, .machine = own_machine()});
    REQUIRE(bench.await_begun(workers));
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
  REQUIRE(first.await_begun(all));
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

// As workers change shared parameters, on a device that does so behind the calls' back.
TEST_CASE("a GPU's workers count their steps, pause, forget and stop like others", "[gpu]") {
  auto backend = kernels::gpu_backend();
  if (!backend) return;
  Bench bench(kRacesAreSeen ? 1 : 2, std::move(backend));
  const auto before = bench.parameters();
  bench.start({});
  REQUIRE(bench.await(20));
  bench.pause_and_discard();
  const auto paused = bench.parameters();
  CHECK(paused != before);
  // A step that was thrown away may still read, which harms nobody, but is seen.
  if (!kRacesAreSeen) bench.arena->write(0, before);
  bench.renew_and_resume();
  REQUIRE(bench.await(bench.trainer->steps() + 10));
  bench.trainer->stop();
  const auto stopped = bench.parameters();
  CHECK(bench.trainer->samples() == 16 * bench.trainer->steps());
  CHECK(*bench.trainer->loss() < 3);
  CHECK_FALSE(bench.trainer->failure().has_value());
  bench.trainer->give_back();
  CHECK(bench.parameters() == stopped);
}

TEST_CASE("devices of one peer train replicas of their own, and the peer's is their mean", "[gpu]") {
  for (const bool on_gpu : {false, true}) {
    if (on_gpu && kRacesAreSeen) continue;
    auto backend = on_gpu ? kernels::gpu_backend() : std::move(*kernels::make_backend("cpu"));
    if (!backend) continue;
    Bench bench(2, std::move(backend));
    const auto before = bench.parameters();
    TrainerOptions options;
    options.average_every = 2;
    bench.start(options, 3);
    REQUIRE(bench.await(60));
    bench.trainer->stop();
    // The last average leaves all where the mean is, but for rounding.
    const auto peer = bench.parameters();
    CHECK(peer != before);
    for (std::size_t device = 0; device < 3; ++device) {
      const auto replica = Bench::contents(bench.group->replica(device));
      double most = 0;
      for (std::size_t i = 0; i < peer.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(peer[i]) - static_cast<double>(replica[i])));
      CHECK(most < 1e-5);
    }
    REQUIRE(bench.trainer->spread().has_value());
    CHECK(*bench.trainer->spread() > 0);
    CHECK(bench.trainer->samples() == 16 * bench.trainer->steps());
    CHECK_FALSE(bench.trainer->non_finite());
  }
}

TEST_CASE("a peer with several devices copies another member's parameters to all of them") {
  Bench bench;
  TrainerOptions options;
  options.average_every = 1;
  bench.start(options, 2);
  REQUIRE(bench.await(10));
  bench.pause_and_discard();
  const std::vector<float> others(bench.arena->size(), 0.125F);
  bench.arena->write(0, others);
  bench.trainer->set_rate_factor(0);  // whatever is computed from now on changes nothing
  bench.renew_and_resume();
  REQUIRE(bench.await(bench.trainer->steps() + 20));
  bench.trainer->stop();
  CHECK(bench.parameters() == others);
  for (std::size_t device = 0; device < 2; ++device)
    CHECK(Bench::contents(bench.group->replica(device)) == others);
}

TEST_CASE("a device with values that are not finite makes the trainer report it") {
  Bench bench;
  TrainerOptions options;
  options.average_every = 1;
  bench.start(options, 2);
  REQUIRE(bench.await(4));
  CHECK_FALSE(bench.trainer->non_finite());
  const std::vector<float> bad(bench.arena->size(), std::numeric_limits<float>::quiet_NaN());
  bench.group->replica(1).write(0, bad);
  for (int i = 0; i < 1000 && !bench.trainer->non_finite(); ++i)
    REQUIRE(bench.await(bench.trainer->steps() + 1));
  CHECK(bench.trainer->non_finite());
}

// Copies of all that a trainer remembers, as they come.
class CaptureTaker {
 public:
  std::shared_ptr<training::PeerState> take(Trainer& trainer) {
    REQUIRE(trainer.capture([this](std::shared_ptr<training::PeerState> state) {
      const std::lock_guard lock(mutex_);
      state_ = std::move(state);
      changed_.notify_all();
    }));
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return state_ != nullptr; }));
    return std::move(state_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<training::PeerState> state_;
};

TEST_CASE("a capture of a running trainer is of one moment: resumed, it repeats the run exactly") {
  Bench whole, copied;
  TrainerOptions in_turn;
  in_turn.in_turn = true;
  whole.start(in_turn);
  CaptureTaker captures;
  copied.start({});
  REQUIRE(copied.await(7));
  const auto state = captures.take(*copied.trainer);
  REQUIRE(copied.await(copied.trainer->steps() + 5));  // it goes on meanwhile
  CHECK(state->samples == 16 * state->steps);
  CHECK(state->steps >= 7);
  // Nothing but steps has changed it, so so many steps from the start are where it was, to the last bit.
  for (std::uint64_t steps = 1; steps <= state->steps; ++steps) {
    REQUIRE(whole.await(steps));
    if (steps < state->steps) whole.trainer->heard(steps);
  }
  whole.trainer->stop();
  CHECK(whole.trainer->steps() == state->steps);
  CHECK(whole.parameters() == state->parameters);
  CHECK(whole.trainer->remains().workers == state->workers);
}

TEST_CASE("several workers are captured one by one while the others train, each with its own counts") {
  for (const std::uint32_t devices : {1, 2}) {
    Bench bench(3);
    CaptureTaker captures;
    TrainerOptions options;
    options.average_every = 4;
    bench.start(options, devices);
    std::uint64_t before = 0;
    for (int i = 0; i < 30; ++i) {
      REQUIRE(bench.await(before + 6));
      const auto state = captures.take(*bench.trainer);
      REQUIRE(state->workers.size() == 3 * devices);
      CHECK(state->samples == 16 * state->steps);
      CHECK(state->steps >= before);
      CHECK(state->steps <= bench.trainer->steps());
      CHECK(state->loss.has_value());
      // Each has drawn as many samples as it has made steps.
      std::uint64_t drawn = 0;
      for (const auto& worker : state->workers) drawn += worker.draws;
      CHECK(drawn == state->steps);
      for (const auto& worker : state->workers)
        CHECK(worker.cursor.position == (worker.draws * 16 + 299) % 300 + 1);
      before = state->steps;
    }
  }
}

TEST_CASE(
    "a trainer that is paused, or waits to be heard, is copied all the same; one that has stopped is not") {
  Bench bench(2);
  CaptureTaker captures;
  bench.start({});
  REQUIRE(bench.await(4));
  bench.trainer->pause(PausedBy::core);
  const auto paused = captures.take(*bench.trainer);
  CHECK(paused->workers.size() == 2);
  bench.trainer->resume(PausedBy::core);
  bench.trainer->stop();
  CHECK_FALSE(bench.trainer->capture([](const std::shared_ptr<training::PeerState>&) {}));
  const auto remains = bench.trainer->remains();
  CHECK(remains.steps == bench.trainer->steps());
  CHECK(remains.parameters == bench.parameters());

  Bench waiting;
  TrainerOptions in_turn;
  in_turn.in_turn = true;
  waiting.start(in_turn);
  REQUIRE(waiting.await(1));
  const auto state = captures.take(*waiting.trainer);
  CHECK(state->steps == 1);
}

TEST_CASE("a trainer that resumes from a capture continues its counts, and reports what does not fit") {
  Bench first(2), second(2), fewer(1);
  TrainerOptions slow;
  slow.pace = kHour;
  first.start(slow);
  first.trainer->stop();
  training::PeerState state = first.trainer->remains();
  state.steps = 100;
  state.samples = 1600;
  state.loss = 1.5;
  second.restored = &state;
  second.start({});
  CHECK(second.lost.empty());
  REQUIRE(second.await(10));
  second.trainer->stop();
  CHECK(second.trainer->steps() >= 110);
  CHECK(second.trainer->samples() == 16 * second.trainer->steps());
  CHECK(second.trainer->remains().steps == second.trainer->steps());
  fewer.restored = &state;
  fewer.start({});
  REQUIRE(fewer.lost.size() == 1);
  CHECK(fewer.lost[0] == "it is of 2 workers, and this peer has 1: what the others remembered is given up");
}

TEST_CASE("a step uses the learning rate times the current factor") {
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

TEST_CASE("a step with a drawn slowdown takes as long as was drawn") {
  const auto slowness = *training::Slowness::parse("pareto:alpha=1");
  const Random chance = training::chance_of_slowness(7, 0, 0);
  constexpr std::uint64_t kSteps = 10;
  double drawn = 0;
  for (std::uint64_t step = 0; step < kSteps; ++step) drawn += slowness.of_step(chance, step);
  Bench bench;
  TrainerOptions options;
  options.pace = std::chrono::milliseconds(2);
  options.slowdowns = {{slowness, Duration{0}, std::nullopt, chance}};
  const auto start = std::chrono::steady_clock::now();
  bench.start(std::move(options));
  // The eleventh is reported when it is computed, before it is made to wait.
  REQUIRE(bench.await(kSteps + 1));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  CHECK(took.count() >= 2 * drawn);
}

TEST_CASE("before the first step there is no loss and nothing is counted") {
  Bench bench;
  Trainer idle({}, *bench.arena, {}, [] {});
  REQUIRE_FALSE(idle.loss().has_value());
  REQUIRE_FALSE(idle.spread().has_value());
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

TEST_CASE(
    "a paced step lands at its end: with a pace of an hour none does, and stopping does not wait for it") {
  Bench bench(2);
  bench.start({kHour, {}});
  const auto parameters = bench.parameters();
  REQUIRE(bench.await_begun(2));
  bench.trainer->stop();
  bench.trainer.reset();  // joins
  REQUIRE(bench.reported == 0);
  REQUIRE(bench.parameters() == parameters);
}

TEST_CASE("with in_turn a worker begins no step before heard() of the last one") {
  Bench bench;
  TrainerOptions options;
  options.in_turn = true;
  bench.start(options);
  for (std::uint64_t step = 1; step <= 20; ++step) {
    REQUIRE(bench.await(step));
    if (step == 10)
      bench.trainer->pause(PausedBy::core);  // what the step led to: then the next does not begin
    REQUIRE(bench.trainer->steps_begun() == step);
    bench.trainer->heard(step);
    if (step == 10) {
      REQUIRE(bench.trainer->steps_begun() == step);
      bench.trainer->resume(PausedBy::core);
    }
  }
  bench.trainer->stop();
}

TEST_CASE("any number of workers makes exactly the steps up to the last one") {
  for (const std::uint32_t workers : {1, 2, 3}) {
    for (const std::uint64_t steps : {1, 2, 100}) {
      CAPTURE(workers, steps);
      Bench bench(workers);
      TrainerOptions options;
      options.last_step = steps;
      bench.start(options);
      REQUIRE(bench.await(steps));
      CaptureTaker captures;  // whoever waits behind the last step is copied all the same
      const auto state = captures.take(*bench.trainer);
      CHECK(state->steps == steps);
      CHECK(state->samples == 16 * steps);
      bench.trainer->pause(PausedBy::core);
      bench.trainer->resume(PausedBy::core);
      bench.trainer->stop();
      bench.trainer->give_back();
      CHECK(bench.reported == steps);
      CHECK(bench.trainer->steps() == steps);
      CHECK(bench.trainer->samples() == 16 * steps);
    }
  }
}

TEST_CASE("steps of earlier lives count towards the last step") {
  Bench earlier, later;
  TrainerOptions ten, fifteen;
  ten.last_step = 10;
  fifteen.last_step = 15;
  earlier.start(ten);
  REQUIRE(earlier.await(10));
  earlier.trainer->stop();
  const training::PeerState state = earlier.trainer->remains();
  later.restored = &state;
  later.start(fifteen);
  REQUIRE(later.await(5));
  // The sixth never comes: whoever is paused in between and goes on finds nothing to do.
  later.pause_and_discard();
  later.renew_and_resume();
  CaptureTaker captures;
  CHECK(captures.take(*later.trainer)->steps == 15);
  later.trainer->stop();
  CHECK(later.trainer->steps() == 15);
  CHECK(later.reported == 5);
}

TEST_CASE("workers whose steps are thrown away make the same number again") {
  Bench bench(3);
  TrainerOptions options;
  options.last_step = 400;
  bench.start(options);
  for (std::uint64_t seen = 20; seen <= 300; seen += 20) {
    REQUIRE(bench.await(seen));
    bench.pause_and_discard();
    bench.trainer->resume(PausedBy::core);
  }
  // Those that were thrown away are reported too.
  for (std::uint64_t seen = 301; bench.trainer->steps() < 400; ++seen) REQUIRE(bench.await(seen));
  CaptureTaker captures;
  CHECK(captures.take(*bench.trainer)->steps == 400);
  bench.trainer->stop();
  CHECK(bench.trainer->steps() == 400);
}

TEST_CASE("a slowdown stretches the pace and not only the arithmetic") {
  Bench bench;
  bench.start({std::chrono::milliseconds(4), {{1e6, Duration{0}, {}}}});  // 4,000 s a step
  REQUIRE(bench.await_begun(1));
  bench.trainer->stop();
  bench.trainer.reset();
  REQUIRE(bench.reported == 0);
}

TEST_CASE("a slowdown applies only within its window, and several factors multiply without overflow") {
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
    REQUIRE(bench.await_begun(1));
    bench.trainer->stop();
    bench.trainer.reset();
    REQUIRE(bench.reported == 0);
  }
}

TEST_CASE("a loss that is not finite is reported") {
  Bench bench;
  bench.arena->write(0, std::vector<float>(bench.arena->size(), std::numeric_limits<float>::quiet_NaN()));
  bench.start({});
  REQUIRE(bench.await(1));
  bench.trainer->stop();
  REQUIRE(bench.trainer->non_finite());
}

}  // namespace starling::node
