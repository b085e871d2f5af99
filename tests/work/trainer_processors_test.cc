// The processors that workers run on, and their priority.
#include "node/work/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/work/trainer_bench.h"

namespace starling::node {
namespace {

using namespace testing;

// The kernel's data about a thread.
struct Seat {
  int niceness = 0;
  std::set<int> processors;
};

// The data of a thread of this process.
Seat seat_of(int thread) {
  std::string text;
  std::getline(std::ifstream("/proc/self/task/" + std::to_string(thread) + "/stat"), text);
  // The niceness is the seventeenth word after the name, which is in parentheses and may contain anything.
  std::istringstream words(text.substr(text.rfind(')') + 1));
  std::string word;
  for (int i = 0; i < 17; ++i) words >> word;
  Seat seat{.niceness = std::stoi(word), .processors = {}};
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(thread, sizeof set, &set) == 0);
  for (int p = 0; p < CPU_SETSIZE; ++p) {
    if (CPU_ISSET(p, &set)) seat.processors.insert(p);
  }
  return seat;
}

// The threads of this process that have a worker's name.
std::set<int> listed_workers() {
  std::set<int> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm"), name);
    if (name.starts_with("worker ")) ids.insert(std::stoi(entry.path().filename()));
  }
  return ids;
}

// The workers that run, once `count` have begun a step of an hour. The kernel's list leaves out threads if
// another one ends while it is read, so it is read until all are in it.
std::vector<Seat> worker_seats(std::size_t count) {
  std::set<int> workers;
  REQUIRE(eventually([&] { return (workers = listed_workers()).size() == count; }));
  std::vector<Seat> seats;
  for (const int thread : workers) seats.push_back(seat_of(thread));
  return seats;
}

// A name unique to this process, so that other running peers have taken no processors.
std::string own_machine() { return "starling-test-" + std::to_string(::getpid()); }

}  // namespace

TEST_CASE("several workers get a processor each, and run at a lower priority than the starting thread") {
  const Seat mine = seat_of(::gettid());
  TrainerBench bench(2);
  bench.start({.pace = kHour, .slowdowns = {}, .machine = own_machine()});
  REQUIRE(bench.await_begun(2));
  const auto workers = worker_seats(2);
  for (const Seat& worker : workers) CHECK(worker.niceness == std::min(mine.niceness + kWorkerNiceness, 19));
  CHECK(seat_of(::gettid()).niceness == mine.niceness);
  CHECK(seat_of(::gettid()).processors == mine.processors);
  if (mine.processors.size() < 2) return;
  for (const Seat& worker : workers) {
    CHECK(worker.processors.size() == 1);
    CHECK(mine.processors.contains(*worker.processors.begin()));
  }
  CHECK(workers[0].processors != workers[1].processors);
}

TEST_CASE("a single worker, more workers than processors, and a second peer are not pinned") {
  const Seat mine = seat_of(::gettid());
  const auto all = static_cast<std::uint32_t>(mine.processors.size());
  const auto check_free = [&](std::uint32_t workers, std::uint32_t others = 0) {
    TrainerBench bench(workers);
    bench.start({.pace = kHour, .slowdowns = {}, .machine = own_machine()});
    REQUIRE(bench.await_begun(workers));
    const auto running = worker_seats(workers + others);
    CHECK(std::count_if(running.begin(), running.end(),
                        [&](const Seat& seat) { return seat.processors == mine.processors; }) >= workers);
  };
  check_free(1);
  if (all > 16) return;  // enough threads
  check_free(all + 1);
  if (all < 2) return;
  TrainerBench first(all);
  first.start({.pace = kHour, .slowdowns = {}, .machine = own_machine()});
  REQUIRE(first.await_begun(all));
  check_free(2, all);
}

}  // namespace starling::node
