// A stream is a thread with a queue of work, so that it is as asynchronous as a device's: the caller never
// waits, and what is asked is done in order. No stream waits for another by itself, the default stream
// included: as if all were made with cudaStreamNonBlocking.
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

// Something that will have happened once.
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
// The handle's stream, be it the current device's default one, or null: there is none.
CUstream_st* find_stream(cudaStream_t handle);
// When its work is done. False: there is no such stream.
bool destroy_stream(cudaStream_t handle);

// Work to be done by the stream in its turn, or to be captured. Not done any more once the device is lost.
cudaError_t enqueue(cudaStream_t handle, Work work);

// Until all work is done that any stream has now.
void drain_all();
// Whether the caller is a stream's thread.
bool in_stream();

}  // namespace starling::emulator

struct CUstream_st {
  explicit CUstream_st(int number);
  ~CUstream_st();
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;

  // Done whatever happens to the device, and never captured.
  void push(starling::emulator::Work work);
  // Until all work is done that it has now.
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
