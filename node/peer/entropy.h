// Random bits that cannot be repeated, for the ids of instances.
#pragma once

#include <cstdint>
#include <random>

namespace starling::node {

// Never 0.
inline std::uint64_t entropy() {
  std::random_device device;
  std::uint64_t bits = 0;
  while (bits == 0) bits = (std::uint64_t{device()} << 32) | device();
  return bits;
}

}  // namespace starling::node
