#include "node/work/background.h"

#include <utility>

#include <asio/post.hpp>

namespace starling::node {

Background::Background(asio::any_io_executor executor) : executor_(std::move(executor)) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Background::run(std::function<void()> work, std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(work), std::move(done)});
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  }
  changed_.notify_all();
}

void Background::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return over_ || !tasks_.empty(); });
    if (over_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task.work();
    lock.lock();
    if (!over_) asio::post(executor_, std::move(task.done));
  }
}

}  // namespace starling::node
