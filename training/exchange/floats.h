// Vectors of floats that begin on a cache line, as arenas and the bytes that travel do: the widest loads and
// stores of a misaligned one all touch two lines.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "base/aligned.h"

namespace starling::training {

template <class T>
struct CacheLineAllocator {
  using value_type = T;

  CacheLineAllocator() = default;
  template <class U>
  CacheLineAllocator(const CacheLineAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kCacheLine)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kCacheLine); }
  friend bool operator==(CacheLineAllocator, CacheLineAllocator) { return true; }
};

using Floats = std::vector<float, CacheLineAllocator<float>>;

}  // namespace starling::training
