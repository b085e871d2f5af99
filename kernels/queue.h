// The order of one thread's work on a device: work begins when all earlier work of the queue is done, and a
// call may return before its work is done. On the host work is done at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace starling::kernels {

class Queue {
 public:
  virtual ~Queue() = default;

  // Copies between host and device. The caller must not change or read the host's bytes until the copy is
  // done. Memory of a back end's staging() is copied without using the host's processor.
  virtual void upload(const void* host, void* device, std::size_t bytes) = 0;
  virtual void download(const void* device, void* host, std::size_t bytes) = 0;
  // Waits until all work is done. Throws DeviceError if the device failed.
  virtual void wait() = 0;

  virtual void clear(void* device, std::size_t bytes) = 0;

  // Bytes of the device's memory that the queue uses for its operations.
  virtual std::size_t workspace_bytes() const { return 0; }

  // A point in a queue's work for which any thread may wait.
  class Mark {
   public:
    virtual ~Mark() = default;
    // Waits until the work before the last mark() is done; returns at once without one. Throws DeviceError.
    virtual void wait() = 0;
    // Whether that work is done.
    virtual bool is_past() = 0;
  };
  virtual std::unique_ptr<Mark> make_mark() = 0;
  virtual void mark(Mark& mark) = 0;

  // Recorded work.
  class Recording {
   public:
    virtual ~Recording() = default;
  };
  // Does `work`, which uses only this queue and depends only on the content of memory. A device records it
  // the first time and replays it when `recording` is passed again.
  virtual void run(std::unique_ptr<Recording>& recording, const std::function<void()>& work) = 0;
};

std::unique_ptr<Queue> make_host_queue();
// A queue of the host that any thread may use.
Queue& host_queue();

}  // namespace starling::kernels
