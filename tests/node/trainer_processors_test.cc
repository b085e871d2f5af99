// The processors that workers run on, and their priority.
#include "node/work/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/node/trainer_bench.h"

namespace starling::node {
namespace {

using namespace testing;

// The kernel's data about a thread.
struct Seat {
  int niceness = 0;
  std::set<int> processors;
};

std::set<int> listed_threads() {
  std::set<int> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ids.insert(std::stoi(entry.path().filename()));
  return ids;
}

// The ids of all threads of this process. The kernel's list leaves out threads if another one ends while it
// is read, so it is read until two readings agree.
std::set<int> threads() {
  std::set<int> ids = listed_threads();
  for (int attempt = 0; attempt < 1000; ++attempt) {
    auto again = listed_threads();
    if (again == ids) return ids;
    ids = std::move(again);
  }
  FAIL("the threads of this process change all the time");
  return ids;
}

// The data of all threads of this process, by id.
std::map<int, Seat> seats() {
  std::map<int, Seat> found;
  for (const int thread : threads()) {
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
    found[thread] = seat;
  }
  return found;
}

// The threads in `now` that are not in `before`: the workers', once each has begun its step of an hour.
std::vector<Seat> new_seats(const std::map<int, Seat>& before, const std::map<int, Seat>& now) {
  std::vector<Seat> fresh;
  for (const auto& [thread, seat] : now) {
    if (!before.contains(thread)) fresh.push_back(seat);
  }
  return fresh;
}

// A name unique to this process, so that other running peers have taken no processors.
std::string own_machine() { return "starling-test-" + std::to_string(::getpid()); }

}  // namespace

TEST_CASE("several workers get a processor each, and run at a lower priority than the starting thread") {
  const auto before = seats();
  const Seat mine = before.at(::gettid());
  TrainerBench bench(2);
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
    TrainerBench bench(workers);
    bench.start({.pace = kHour, .slowdowns = {}, .machine = own_machine()});
    REQUIRE(bench.await_begun(workers));
    const auto fresh = new_seats(before, seats());
    REQUIRE(fresh.size() == workers + others);
    CHECK(std::count_if(fresh.begin(), fresh.end(),
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
