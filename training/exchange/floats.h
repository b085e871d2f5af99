// Vectors of floats that begin on a cache line, as arenas and the bytes that travel do: the widest loads and
// stores of a misaligned one all touch two lines.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace starling::training {

template <class T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  CacheLineAllocator() = default;
  template <class U>
  CacheLineAllocator(const CacheLineAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kLine); }
  friend bool operator==(CacheLineAllocator, CacheLineAllocator) { return true; }
};

using Floats = std::vector<float, CacheLineAllocator<float>>;

}  // namespace starling::training
