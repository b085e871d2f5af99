#include "base/large_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

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

void clear_pages(void* begin, std::size_t bytes) {
  static const auto kPage = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t from = (address + kPage - 1) / kPage * kPage, to = (address + bytes) / kPage * kPage;
  // The system then gives zeros for anonymous memory. It refuses locked memory.
  if (from >= to || ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED) != 0) {
    std::memset(begin, 0, bytes);
    return;
  }
  std::memset(begin, 0, from - address);
  std::memset(reinterpret_cast<void*>(to), 0, address + bytes - to);
}

}  // namespace starling
