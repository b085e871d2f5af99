// What distinguishes one start of a peer from all others: random bits that cannot be repeated, and the time.
#pragma once

#include <algorithm>
#include <chrono>
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

// By the system's clock, for the first incarnation of an instance: a later instance has a greater one.
inline std::uint32_t seconds_since_2020() {
  constexpr std::int64_t k2020 = 1'577'836'800;  // in Unix time
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count() - k2020;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(seconds, 0, UINT32_MAX));
}

}  // namespace starling::node
