#include "kernels/memory.h"

#include <cstring>
#include <new>

namespace starling::kernels {
namespace {

constexpr std::align_val_t kAlignment{64};

class HostMemory final : public Memory {
 public:
  bool on_host() const override { return true; }
  void* allocate(std::size_t bytes) override {
    void* p = ::operator new(bytes, kAlignment);
    std::memset(p, 0, bytes);
    return p;
  }
  void release(void* p) noexcept override { ::operator delete(p, kAlignment); }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace starling::kernels
