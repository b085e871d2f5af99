#include "node/work/background.h"

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include "node/work/self_judge.h"
#include "tests/catch.h"

namespace starling::node {

TEST_CASE("tasks run in order on another thread, and each result is handed over on the executor") {
  asio::io_context io;
  const auto guard = asio::make_work_guard(io);
  Background background(io.get_executor());
  std::vector<int> order;
  const auto here = std::this_thread::get_id();
  bool elsewhere = true, told_here = true;
  for (int i = 0; i < 3; ++i) {
    background.run(
        [&, i] {
          order.push_back(i);
          elsewhere = elsewhere && std::this_thread::get_id() != here;
        },
        [&, i] {
          told_here = told_here && std::this_thread::get_id() == here;
          if (i == 2) io.stop();
        });
  }
  io.run();
  CHECK(order == std::vector<int>{0, 1, 2});
  CHECK(elsewhere);
  CHECK(told_here);
}

TEST_CASE("what a task returns is moved to its done function") {
  asio::io_context io;
  const auto guard = asio::make_work_guard(io);
  Background background(io.get_executor());
  std::unique_ptr<int> result;
  background.run([] { return std::make_unique<int>(7); },
                 [&](std::unique_ptr<int> made) {
                   result = std::move(made);
                   io.stop();
                 });
  io.run();
  REQUIRE(result != nullptr);
  CHECK(*result == 7);
}

TEST_CASE("the end of a background waits for the task that runs") {
  asio::io_context io;
  std::promise<void> begun, go_on;
  bool done = false;
  std::thread helper;
  {
    Background background(io.get_executor());
    background.run([&] {
      begun.set_value();
      go_on.get_future().wait();
      done = true;
    });
    begun.get_future().wait();
    helper = std::thread([&] { go_on.set_value(); });
  }
  CHECK(done);
  helper.join();
}

TEST_CASE("evaluations of a replica are current, and cost at most 2 % of the time") {
  constexpr std::size_t kMost = 1000;
  // The first one costs little, as its cost is not known.
  CHECK(judging_pace(0, {}, kMost).samples == kMost / JudgingPace::kFewest);
  CHECK(judging_pace(0, {}, 1).samples == 1);
  for (const double trained : {0.0, 10.0, 1000.0, 1e6}) {
    for (const double per_sample : {1e-7, 1e-5, 1e-3}) {
      CAPTURE(trained, per_sample);
      const JudgingCost cost{.copy = 1e-3, .per_sample = per_sample};
      const JudgingPace pace = judging_pace(trained, cost, kMost);
      CHECK(pace.seconds == std::max(2.5, 0.01 * trained));
      CHECK(pace.samples >= kMost / JudgingPace::kFewest);
      CHECK(pace.samples <= kMost);
      CHECK(cost.copy + per_sample * static_cast<double>(pace.samples) <= 0.02 * pace.seconds + 1e-9);
      // Shown until the next one is complete.
      CHECK(2 * pace.seconds <= std::max(5.0, 0.02 * trained));
    }
  }
  // A network whose evaluation of a few samples takes seconds is evaluated rarely.
  const JudgingPace large = judging_pace(0, {.copy = 0.3, .per_sample = 0.5}, kMost);
  CHECK(large.samples == kMost / JudgingPace::kFewest);
  CHECK(large.seconds == Approx((0.3 + 0.5 * 15) / 0.02));
}

}  // namespace starling::node
