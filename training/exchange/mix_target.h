// The arena as a rule changes it: downwards. Workers' updates run upwards through the arena: a mix that did
// so too could keep step with one for a whole chunk, and every element they touch together may lose an
// update. Running against them, the two meet once, in one block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "models/arena.h"
#include "training/exchange/floats.h"
#include "training/exchange/mixer.h"
#include "training/exchange/values.h"

namespace starling::training {

class MixTarget {
 public:
  // `exact`: as MixOptions. `arena` outlives it.
  MixTarget(models::Arena& arena, bool exact) : arena_(arena), exact_(exact) {}

  std::size_t size() const { return arena_.size(); }
  // out = x. Returns whether all of it is acceptable (values.h).
  bool read(std::size_t offset, std::span<float> out) const {
    return arena_.read(offset, out) <= kLargestMagnitude;
  }

  // The same of `count` floats, as encode() makes them travel, where their memory does that by itself.
  std::optional<bool> read_encoded(std::size_t offset, std::size_t count, Payload payload, std::uint64_t seed,
                                   MutableBytes out) const {
    if (payload != Payload::bf16 && payload != Payload::int8) return std::nullopt;
    const auto packing = payload == Payload::bf16 ? kernels::Packing::bf16 : kernels::Packing::int8;
    const auto largest = arena_.read_packed(offset, count, packing, seed, out);
    return largest ? std::optional(*largest <= kLargestMagnitude) : std::nullopt;
  }

  // x += w (theirs - own). REQUIRES: as many of either, and so many behind `offset`.
  void mix(std::size_t offset, std::span<const float> theirs, std::span<const float> own, float w) {
    if (exact_) {
      delta_.resize(theirs.size());
      for (std::size_t i = 0; i < theirs.size(); ++i) delta_[i] = w * (theirs[i] - own[i]);
      arena_.atomic_add(offset, delta_);
      return;
    }
    arena_.mix(offset, theirs, own, w);
  }

  // x += delta.
  void add(std::size_t offset, std::span<const float> delta) {
    if (exact_) return arena_.atomic_add(offset, delta);
    downwards(delta.size(), [&](std::size_t begin, std::size_t count) {
      arena_.add(offset + begin, delta.subspan(begin, count));
    });
  }

  // The same at some places alone, counted from `offset`; `mixed` gets what is there afterwards.
  // REQUIRES: as many of each.
  void mix_at(std::size_t offset, std::span<const std::uint32_t> places, std::span<const float> theirs,
              std::span<const float> own, float w, std::span<float> mixed) {
    if (exact_) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        const float delta = w * (theirs[i] - own[i]);
        arena_.atomic_add(offset + places[i], std::span(&delta, 1));
        arena_.read(offset + places[i], mixed.subspan(i, 1));
      }
      return;
    }
    arena_.mix_at(offset, places, theirs, own, w, mixed);
  }

 private:
  // Calls pass(begin, count) for blocks of [0, n), the last one first.
  template <class Pass>
  static void downwards(std::size_t n, Pass pass) {
    constexpr std::size_t kBlock = 512;  // floats
    while (n > 0) {
      const std::size_t count = (n - 1) % kBlock + 1;
      n -= count;
      pass(n, count);
    }
  }

  models::Arena& arena_;
  bool exact_;
  Floats delta_;  // scratch
};

}  // namespace starling::training
