#include "node/work/background.h"

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

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

}  // namespace starling::node
