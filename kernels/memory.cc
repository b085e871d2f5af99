#include "kernels/memory.h"

#include <cstring>

#include "base/aligned.h"

namespace starling::kernels {
namespace {

class HostMemory final : public Memory {
 public:
  bool on_host() const override { return true; }
  void* allocate(std::size_t bytes) override {
    void* p = ::operator new(bytes, kCacheLine);
    std::memset(p, 0, bytes);
    return p;
  }
  void release(void* p) noexcept override { ::operator delete(p, kCacheLine); }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace starling::kernels
