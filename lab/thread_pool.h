// A few threads that compute tasks in the background. Tasks are independent of each other, so the number of
// threads changes only the time they take.
#pragma once

#include <algorithm>
#include <cstddef>
#include <future>
#include <thread>
#include <utility>

#include <asio/post.hpp>
#include <asio/thread_pool.hpp>

namespace starling::lab {

class ThreadPool {
 public:
  explicit ThreadPool(unsigned threads)  // 0: as many as there are cores
      : size_(threads > 0 ? threads : std::max(1U, std::thread::hardware_concurrency())), threads_(size_) {}
  // Waits for all tasks, those that have not begun included.
  ~ThreadPool() { threads_.join(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t size() const { return size_; }

  template <class F>
  auto submit(F work) -> std::future<decltype(work())> {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto future = task.get_future();
    asio::post(threads_, std::move(task));
    return future;
  }

 private:
  std::size_t size_;
  asio::thread_pool threads_;
};

}  // namespace starling::lab
