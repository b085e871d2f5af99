// Which values may touch a replica, and how far two chunks are apart: the passes over private buffers that
// every rule makes before it mixes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "models/layout.h"

namespace starling::training {

// A vector that begins on a cache line, as arenas and the bytes that travel do: the widest loads and stores
// of a misaligned one all touch two lines.
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

// True if no value is NaN or infinite. One vectorized pass.
bool all_finite(std::span<const float> values);

// The largest accepted magnitude of a peer's value (1.15e18), far above honest parameters. Sums and
// differences of such values stay finite, so no peer can make another's parameters overflow.
inline constexpr float kLargestMagnitude = 0x1p60f;
// True if every value is within kLargestMagnitude, NaN excluded. One vectorized pass.
bool all_acceptable(std::span<const float> values);

// The first tensor of the arena with a value that is not acceptable, and its values, as a clause: "w has
// NaN". Empty: there is none. REQUIRES: the values are an arena of this layout.
std::string unacceptable_tensor(const models::Layout& layout, std::span<const float> arena);

// The largest kernels::magnitude_bits(); 0 if there are no values.
std::int32_t largest_magnitude_bits(std::span<const float> values);

// Sums of squares over two vectors of values.
struct Measure {
  double distance_square = 0;  // |theirs - own|^2
  double norm_square = 0;      // |own|^2
  bool acceptable = true;      // all of theirs; if false, the sums are undefined
  double distance() const;
};
// REQUIRES: equal lengths; own are acceptable. The order of summation does not depend on the processor.
Measure measure(std::span<const float> theirs, std::span<const float> own);

// out = 2 out - lent: the free half of values while `lent` is lent.
void free_half(std::span<const float> lent, std::span<float> out);

// x += delta, and x += w (theirs - own), for private vectors. REQUIRES: equal lengths.
void add(std::span<const float> delta, std::span<float> x);
void mix(std::span<const float> theirs, std::span<const float> own, float w, std::span<float> x);

}  // namespace starling::training
