// A stream is a thread with a work queue, so it is as asynchronous as on a device: the caller never waits,
// and work runs in order. Streams do not wait for each other implicitly, including the default stream: all
// behave as if created with cudaStreamNonBlocking.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/emulator/device.h"

namespace starling::emulator {

using Work = std::function<void()>;

struct Capture;  // captures.h

// A one-time event.
class Instant {
 public:
  void come();
  void wait() const { come_.wait(false); }
  bool is_past() const { return come_.load(); }
  // REQUIRES: is_past().
  std::chrono::steady_clock::time_point when() const { return when_; }

 private:
  std::chrono::steady_clock::time_point when_;
  std::atomic<bool> come_{false};
};

CUstream_st* create_stream();
// The handle's stream, which may be the current device's default stream; null if there is none.
CUstream_st* find_stream(cudaStream_t handle);
// Removes a created stream from those that find_stream() finds. False if there is no such stream.
bool forget_stream(cudaStream_t handle);

// Waits until the current work of all streams is done.
void drain_all();
// Whether the calling thread is a stream's thread.
bool in_stream();

}  // namespace starling::emulator

struct CUstream_st {
  explicit CUstream_st(int number);
  ~CUstream_st();
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;

  // Runs even if the device is lost, and is never captured.
  void push(starling::emulator::Work work);
  // Waits until its current work is done.
  void drain();
  bool idle() const;

  const int device;
  std::shared_ptr<starling::emulator::Capture> capture;  // guarded by captures.cc's mutex

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable more_;
  std::deque<starling::emulator::Work> work_;
  bool busy_ = false, ends_ = false;
  std::thread thread_;
};
