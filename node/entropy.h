// Chance that is not repeatable: ids of instances must never be.
#pragma once

#include <cstdint>
#include <random>

namespace starling::node {

// Not 0.
inline std::uint64_t entropy() {
  std::random_device device;
  std::uint64_t bits = 0;
  while (bits == 0) bits = (std::uint64_t{device()} << 32) | device();
  return bits;
}

}  // namespace starling::node
