// One thread for work that may block (a disk, a data set, an evaluation), so that the daemon's thread never
// waits. Tasks run in the order in which they were given; each hands its result to the owner's executor.
#pragma once

#include <atomic>
#include <type_traits>
#include <utility>

#include <asio/any_io_executor.hpp>
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>

namespace starling::node {

class Background {
 public:
  explicit Background(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  ~Background() { end(); }

  // Drops the tasks that have not begun and all later ones, waits for the one that runs, and calls no `done`.
  void end() {
    over_ = true;
    thread_.stop();
    thread_.join();
  }

  // Runs work() on the thread.
  template <class Work>
  void run(Work work) {
    asio::post(thread_, std::move(work));
  }

  // Runs work() on the thread, then done(its result) on the executor; done() if work returns void. From any
  // thread.
  template <class Work, class Done>
  void run(Work work, Done done) {
    asio::post(thread_, [this, work = std::move(work), done = std::move(done)]() mutable {
      if constexpr (std::is_void_v<std::invoke_result_t<Work&>>) {
        work();
        hand_over(std::move(done));
      } else {
        hand_over([result = work(), done = std::move(done)]() mutable { done(std::move(result)); });
      }
    });
  }

 private:
  template <class Handler>
  void hand_over(Handler handler) {
    if (!over_) asio::post(executor_, std::move(handler));
  }

  asio::any_io_executor executor_;
  std::atomic<bool> over_{false};
  asio::thread_pool thread_{1};
};

}  // namespace starling::node
