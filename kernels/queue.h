// The order in which one thread's work is done on a device: what is asked of a queue begins when all that was
// asked of it before is done, and a call may return before its work is done. On the host it is done at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace starling::kernels {

class Queue {
 public:
  virtual ~Queue() = default;

  // Between host and device. The host's bytes stay as they are, or unread, until the copy is done; what comes
  // from a back end's staging() travels without the host's help.
  virtual void upload(const void* host, void* device, std::size_t bytes) = 0;
  virtual void download(const void* device, void* host, std::size_t bytes) = 0;
  // Until all that was asked is done. Throws DeviceError where the device has failed.
  virtual void wait() = 0;

  virtual void clear(void* device, std::size_t bytes) = 0;

  // Bytes of the device that it holds by now, for the operations that were made for it.
  virtual std::size_t workspace_bytes() const { return 0; }

  // An instant in a queue's work, for which any thread may wait.
  class Mark {
   public:
    virtual ~Mark() = default;
    // Until what was asked before the last mark() is done; at once where there was none. Throws DeviceError.
    virtual void wait() = 0;
    // Whether it is done by now.
    virtual bool is_past() = 0;
  };
  virtual std::unique_ptr<Mark> make_mark() = 0;
  virtual void mark(Mark& mark) = 0;

  // A piece of work as it was recorded.
  class Recording {
   public:
    virtual ~Recording() = default;
  };
  // Does `work`, which asks things of this queue and depends on nothing but the content of memory. A device
  // records it the first time, and replays it as one thing whenever `recording` is shown again.
  virtual void run(std::unique_ptr<Recording>& recording, const std::function<void()>& work) = 0;
};

std::unique_ptr<Queue> make_host_queue();
// One for whoever has none of their own. Any thread may use it.
Queue& host_queue();

}  // namespace starling::kernels
