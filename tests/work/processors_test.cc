// The processors that a peer's workers get.
#include "node/work/processors.h"

#include <sched.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "tests/catch.h"

namespace starling::node {
namespace {

// A name unique to this process, so that peers running on this machine have taken no processors.
std::string own_name() { return "starling-test-" + std::to_string(::getpid()); }

std::set<int> allowed() {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  std::set<int> numbers;
  for (int p = 0; p < CPU_SETSIZE; ++p) {
    if (CPU_ISSET(p, &set)) numbers.insert(p);
  }
  return numbers;
}

}  // namespace

TEST_CASE("each worker gets a core before any core is shared, and the caller's processor comes last") {
  using Order = std::vector<int>;
  CHECK(by_preference({}, 0) == Order{});
  CHECK(by_preference({{0, 0}, {1, 1}, {2, 2}, {3, 3}}, 1) == Order{2, 3, 0, 1});
  CHECK(by_preference({{0, 0}, {1, 1}, {2, 2}, {3, 3}}, 3) == Order{0, 1, 2, 3});
  // Two threads a core: numbered core by core, and numbered in rounds over all cores.
  CHECK(by_preference({{0, 0}, {1, 0}, {2, 2}, {3, 2}}, 0) == Order{2, 0, 1, 3});
  CHECK(by_preference({{0, 0}, {1, 1}, {2, 0}, {3, 1}}, 3) == Order{0, 1, 2, 3});
  // If the first thread of a core is not allowed, the second one counts as the first.
  CHECK(by_preference({{1, 0}, {2, 2}, {3, 2}}, 7) == Order{1, 2, 3});
}

TEST_CASE("a processor belongs to one peer at a time, and is free again when that peer ends") {
  const std::size_t all = allowed().size();
  {
    const auto mine = take_processors(all, own_name());
    REQUIRE(mine.size() == all);
    std::set<int> numbers;
    for (const Processor& processor : mine) numbers.insert(processor.number());
    CHECK(numbers == allowed());
    CHECK(take_processors(1, own_name()).empty());
  }
  const auto one = take_processors(1, own_name());
  CHECK(one.size() == 1);
  CHECK(take_processors(all, own_name()).empty());  // all or none: nothing is kept of a failed request
  CHECK(take_processors(all - 1, own_name()).size() == all - 1);
  CHECK(take_processors(all + 1, own_name()).empty());
}

TEST_CASE("a thread that may use one processor gets that one only") {
  const int last = *allowed().rbegin();
  std::thread([&] {
    CHECK(pin_to(last).ok());
    CHECK(allowed() == std::set<int>{last});
    CHECK(take_processors(2, own_name()).empty());
    const auto taken = take_processors(1, own_name());
    REQUIRE(taken.size() == 1);
    CHECK(taken[0].number() == last);
  }).join();
  CHECK_FALSE(pin_to(CPU_SETSIZE - 1).ok());
}

TEST_CASE("only threads started under StartsBatchThreads are batch threads") {
  const auto policy_of_a_new_thread = [] {
    int policy = -1;
    std::thread([&] { policy = ::sched_getscheduler(0); }).join();
    return policy;
  };
  {
    const StartsBatchThreads batch;
    CHECK(policy_of_a_new_thread() == SCHED_BATCH);
  }
  CHECK(::sched_getscheduler(0) == SCHED_OTHER);
  CHECK(policy_of_a_new_thread() == SCHED_OTHER);
}

}  // namespace starling::node
