// Replaces the global operators new and delete. It has its own file so that compilers cannot inline them.
#include "tests/models/allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> allocations{0}, live_blocks{0}, live_bytes{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  live_blocks.fetch_add(1, std::memory_order_relaxed);
  live_bytes.fetch_add(static_cast<long>(malloc_usable_size(memory)), std::memory_order_relaxed);
  return memory;
}

void freed(void* memory) {
  if (memory == nullptr) return;
  live_blocks.fetch_sub(1, std::memory_order_relaxed);
  live_bytes.fetch_sub(static_cast<long>(malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

long starling::allocation_count() { return allocations.load(); }

starling::Live starling::live_allocations() { return {live_blocks.load(), live_bytes.load()}; }

void* operator new(std::size_t bytes) { return counted(bytes, 16); }
void* operator new[](std::size_t bytes) { return counted(bytes, 16); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, 16); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t to) {
  return counted(bytes, static_cast<std::size_t>(to));
}
void* operator new[](std::size_t bytes, std::align_val_t to) {
  return counted(bytes, static_cast<std::size_t>(to));
}
void operator delete(void* memory) noexcept { freed(memory); }
void operator delete[](void* memory) noexcept { freed(memory); }
void operator delete(void* memory, std::size_t) noexcept { freed(memory); }
void operator delete[](void* memory, std::size_t) noexcept { freed(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { freed(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { freed(memory); }
