// Where the parts of a network wait for each other, hundreds of times in a batch: a part looks for the others
// for a while before it sleeps.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace starling::training {

class SliceBarrier {
 public:
  explicit SliceBarrier(std::size_t parts) : parts_(parts) {}

  // Returns true when all parts have come, false if stop() was called.
  bool wait();
  // Ends all waits until reset().
  void stop();
  // REQUIRES: nobody waits.
  void reset();

 private:
  const std::size_t parts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrived_ = 0;
  std::atomic<std::uint64_t> round_ = 0;
  std::atomic<bool> stopped_ = false;
};

}  // namespace starling::training
