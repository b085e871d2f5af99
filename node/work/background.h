// A thread for work that may take long (a disk, a data set, an evaluation), so that the daemon's own never
// waits.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include <asio/any_io_executor.hpp>

namespace starling::node {

class Background {
 public:
  explicit Background(asio::any_io_executor executor);
  // Drops what has not begun, waits for what has, and calls no `done` that has not been called.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Runs `work` on the thread, one after the other in order, and then `done` on the executor.
  void run(
      std::function<void()> work, std::function<void()> done = [] {});

 private:
  struct Task {
    std::function<void()> work, done;
  };
  void loop();

  asio::any_io_executor executor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool over_ = false;
  std::thread thread_;  // started by the first task
};

}  // namespace starling::node
