// What the peers of an all-reduce sum in every step: the gradient, then a word for each thing that all must
// learn of, then for each rank the instant at which it was ready to sum.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace starling::node {

class Contribution {
 public:
  using Instant = std::chrono::steady_clock::time_point;
  enum Word : std::size_t { asked_to_end, lost, words };

  static std::size_t floats(std::size_t parameters, std::uint32_t peers) {
    return parameters + words + 2 * std::size_t{peers};
  }

  Contribution(std::size_t parameters, std::uint32_t peers)
      : parameters_(parameters), values_(floats(parameters, peers)) {}

  std::span<float> all() { return values_; }
  std::span<float> gradient() { return all().first(parameters_); }

  void set(Word word, bool on) { values_[parameters_ + word] = on ? 1 : 0; }
  // After the sum: whether any peer has set it.
  bool is_set(Word word) const { return values_[parameters_ + word] > 0; }

  // An instant is two floats, exact to the microsecond for half a year of uptime. The other ranks' floats are
  // zero, so after the sum all ranks have all instants. The processes share a clock, as they share a machine.
  void set_ready(std::uint32_t rank, Instant at) {
    const auto instants = all().subspan(parameters_ + words);
    std::fill(instants.begin(), instants.end(), 0.0F);
    const auto microseconds = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count());
    instants[2 * std::size_t{rank}] = static_cast<float>(microseconds / kHalf % kHalf);
    instants[2 * std::size_t{rank} + 1] = static_cast<float>(microseconds % kHalf);
  }
  // After the sum: when the last rank was ready.
  Instant all_ready() const {
    std::uint64_t latest = 0;
    for (std::size_t i = parameters_ + words; i + 1 < values_.size(); i += 2) {
      latest = std::max(latest, static_cast<std::uint64_t>(values_[i]) * kHalf +
                                    static_cast<std::uint64_t>(values_[i + 1]));
    }
    return Instant(std::chrono::microseconds(latest));
  }

 private:
  static constexpr std::uint64_t kHalf = 1 << 22;

  const std::size_t parameters_;
  std::vector<float> values_;
};

}  // namespace starling::node
