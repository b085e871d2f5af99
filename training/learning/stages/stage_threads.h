// Threads that compute together again and again: each does its part of every round.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace starling::training {

class StageThreads {
 public:
  // Part k of `count` is work(k). `cancel` is called if a part throws, and makes the others return.
  StageThreads(std::size_t count, std::function<void(std::size_t)> work, std::function<void()> cancel);
  ~StageThreads();
  StageThreads(const StageThreads&) = delete;
  StageThreads& operator=(const StageThreads&) = delete;

  // A round: all parts at once, the first on the calling thread. Returns when all are over; throws what the
  // first of those that failed threw.
  void run() { run(work_); }
  // The same with other work.
  void run(const std::function<void(std::size_t)>& work);

  // A round whose first part the caller does itself: start() begins the others, and finish() waits until they
  // are over, and throws what the first of those that failed threw.
  void start();
  void finish();

 private:
  void stop();
  void begin_round(const std::function<void(std::size_t)>& work);
  void try_work(std::size_t part);
  void work_rounds(std::size_t part);

  std::function<void(std::size_t)> work_;
  std::function<void()> cancel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(std::size_t)>* round_ = nullptr;  // the work of the round
  std::uint64_t begun_ = 0;                                  // rounds
  std::size_t running_ = 0;                                  // parts, without the first
  bool stopped_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace starling::training
