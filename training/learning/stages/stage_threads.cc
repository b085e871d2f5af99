#include "training/learning/stages/stage_threads.h"

#include <utility>

namespace starling::training {

StageThreads::StageThreads(std::size_t count, std::function<void(std::size_t)> work,
                           std::function<void()> cancel)
    : work_(std::move(work)), cancel_(std::move(cancel)) {
  try {
    for (std::size_t part = 1; part < count; ++part)
      threads_.emplace_back([this, part] { work_rounds(part); });
  } catch (...) {  // no memory for a stack
    stop();
    throw;
  }
}

StageThreads::~StageThreads() { stop(); }

void StageThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void StageThreads::try_work(std::size_t part) {
  try {
    (*round_)(part);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    cancel_();
  }
}

void StageThreads::work_rounds(std::size_t part) {
  for (std::uint64_t done = 0;; ++done) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || begun_ > done; });
      if (stopped_) return;
    }
    try_work(part);
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    changed_.notify_all();
  }
}

void StageThreads::begin_round(const std::function<void(std::size_t)>& work) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = nullptr;
    round_ = &work;
    running_ = threads_.size();
    ++begun_;
  }
  changed_.notify_all();
}

void StageThreads::run(const std::function<void(std::size_t)>& work) {
  begin_round(work);
  try_work(0);
  finish();
}

void StageThreads::start() { begin_round(work_); }

void StageThreads::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace starling::training
