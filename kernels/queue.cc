#include "kernels/queue.h"

#include <cstring>

namespace starling::kernels {
namespace {

class HostQueue final : public Queue {
 public:
  void upload(const void* host, void* device, std::size_t bytes) override { copy(host, device, bytes); }
  void download(const void* device, void* host, std::size_t bytes) override { copy(device, host, bytes); }
  void clear(void* device, std::size_t bytes) override { std::memset(device, 0, bytes); }
  void wait() override {}

  std::unique_ptr<Mark> make_mark() override { return std::make_unique<Done>(); }
  void mark(Mark& /*mark*/) override {}

  void run(std::unique_ptr<Recording>& /*recording*/, const std::function<void()>& work) override { work(); }

 private:
  class Done final : public Mark {
    void wait() override {}
    bool is_past() override { return true; }
  };

  static void copy(const void* from, void* to, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
};

}  // namespace

Queue& host_queue() {
  static HostQueue queue;
  return queue;
}

std::unique_ptr<Queue> make_host_queue() { return std::make_unique<HostQueue>(); }

}  // namespace starling::kernels
