#include "kernels/memory.h"

#include <sys/mman.h>

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

// A buffer of any size is the same inaccessible page.
class NoMemory final : public Memory {
 public:
  NoMemory() : page_(::mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (page_ == MAP_FAILED) throw std::bad_alloc();
  }
  bool on_host() const override { return true; }
  void* allocate(std::size_t) override { return page_; }
  void release(void*) noexcept override {}

 private:
  static constexpr std::size_t kPage = 4096;
  void* page_;
};

thread_local int t_only_sizes = 0;  // existing OnlySizes of the thread

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  if (t_only_sizes == 0) return memory;
  static NoMemory none;
  return none;
}

OnlySizes::OnlySizes() { ++t_only_sizes; }
OnlySizes::~OnlySizes() { --t_only_sizes; }

}  // namespace starling::kernels
