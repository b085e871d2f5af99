// What a worker remembers between two steps, as a value: whoever keeps it and puts it back into another
// worker of the same shard and settings gets the same steps, to the last bit.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"

namespace starling::training {

// A generator as it stands, its seed and the place in its sequence.
using RandomState = std::array<std::uint64_t, 5>;
static_assert(sizeof(Random) == sizeof(RandomState));
inline RandomState state_of(const Random& random) {
  return std::bit_cast<RandomState>(random);
}
inline Random random_of(const RandomState& state) {
  return std::bit_cast<Random>(state);
}

// Which samples come next.
struct Cursor {
  std::vector<std::uint32_t> order;  // of this pass over the shard: each of its samples once
  std::uint64_t position = 0;        // in it, of the next sample
  RandomState random{};              // that draws the next order
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

struct WorkerState {
  Cursor cursor;
  std::optional<RandomState> images;  // of who crops and flips them
  std::uint64_t draws = 0;            // of the network's own chance (dropout): batches so far

  // Of SGD its velocity; of AdamW its means of gradients, and in `square` those of their squares. Of what is
  // trained, with the arena's gaps.
  std::vector<float> velocity, square;
  std::uint64_t steps = 0;  // since those began at zero

  // Of quasi-global momentum, once it has seen the replica.
  struct Following {
    bool mixed = false;         // with somebody, since it last looked
    std::uint64_t steps = 0;    // since then,
    double rates = 0;           // and the sum of their learning rates
    std::vector<float> last{};  // the replica then
    friend bool operator==(const Following&, const Following&) = default;
  };
  std::optional<Following> following;

  friend bool operator==(const WorkerState&, const WorkerState&) = default;
};

}  // namespace starling::training
