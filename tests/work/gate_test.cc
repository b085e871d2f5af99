// The parts that a trainer's threads share: the gate, the step budget, captures of the state.
#include <atomic>
#include <thread>
#include <vector>

#include "node/work/gate.h"
#include "node/work/hogwild.h"
#include "tests/catch.h"

namespace starling::node {

TEST_CASE("a gate is open again when all pauses have ended") {
  Gate gate(1);
  CHECK(gate.is_open());
  gate.pause(PausedBy::core);
  gate.pause(PausedBy::owner);
  gate.resume(PausedBy::core);
  CHECK_FALSE(gate.is_open());
  CHECK(gate.is_paused(PausedBy::owner));
  CHECK_FALSE(gate.is_paused(PausedBy::core));
  gate.resume(PausedBy::owner);
  CHECK(gate.is_open());
}

TEST_CASE("stopping a gate ends every wait, and only the first stop is the first") {
  Gate gate(2);
  std::vector<std::thread> waiters;
  waiters.emplace_back([&] { gate.wait([] { return false; }); });
  waiters.emplace_back([&] { gate.wait_idle([] { return false; }); });
  waiters.emplace_back([&] { gate.wait_until(Gate::Clock::now() + std::chrono::hours(1)); });
  CHECK(gate.stop());
  CHECK_FALSE(gate.stop());
  for (auto& waiter : waiters) waiter.join();
  CHECK(gate.is_stopped());
}

TEST_CASE("a budget gives each step once, and a returned step again") {
  Gate gate(4);
  StepBudget budget(gate, 1000);
  budget.begin_at(100);
  std::atomic<int> taken{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&] {
      while (budget.take()) ++taken;
    });
  }
  for (auto& worker : workers) worker.join();
  CHECK(taken == 900);
  CHECK_FALSE(budget.is_left());
  budget.give_back();
  CHECK(budget.is_left());
  CHECK(budget.take());
  CHECK_FALSE(budget.take());
}

TEST_CASE("a capture is complete with the last worker's part, and then the next one may begin") {
  Gate gate(2);
  Captures captures(gate, 2);
  training::PeerState earlier;
  earlier.steps = 10;
  std::shared_ptr<training::PeerState> captured;
  const auto done = [&](std::shared_ptr<training::PeerState> state) { captured = std::move(state); };
  REQUIRE(captures.begin(earlier, done));
  CHECK_FALSE(captures.begin(earlier, done));
  CHECK(captures.awaits(0));
  CHECK_FALSE(captures.add(0, {}, 3, 30));
  CHECK_FALSE(captures.awaits(0));
  CHECK_FALSE(captures.is_complete());
  CHECK(captures.add(1, {}, 4, 40));
  CHECK(captures.is_complete());
  captures.finish([](training::PeerState& state) { state.loss = 0.5; });
  REQUIRE(captured != nullptr);
  CHECK(captured->steps == 17);
  CHECK(captured->samples == 70);
  CHECK(captured->workers.size() == 2);
  CHECK(captured->loss == 0.5);
  CHECK_FALSE(captures.is_complete());
  CHECK(captures.begin(earlier, done));
}

}  // namespace starling::node
