#include "base/large_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace starling {

void request_large_pages(void* begin, std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t from = (address + kLargePage - 1) / kLargePage * kLargePage,
                       to = (address + bytes) / kLargePage * kLargePage;
  if (from < to) ::madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
#else
  (void)begin, (void)bytes;
#endif
}

}  // namespace starling
