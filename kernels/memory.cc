#include "kernels/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/aligned.h"
#include "base/large_pages.h"

namespace starling::kernels {
namespace {

class HostMemory final : public Memory {
 public:
  bool on_host() const override { return true; }
  void* allocate(std::size_t bytes) override {
    const std::size_t alignment = bytes < kLargePage ? static_cast<std::size_t>(kCacheLine) : kLargePage;
    void* p = std::aligned_alloc(alignment,
                                 (std::max(bytes, std::size_t{1}) + alignment - 1) / alignment * alignment);
    if (p == nullptr) throw std::bad_alloc();
    request_large_pages(p, bytes);
    if (bytes < kLargePage)
      std::memset(p, 0, bytes);
    else
      clear_pages(p, bytes);
    return p;
  }
  void release(void* p) noexcept override { std::free(p); }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace starling::kernels
