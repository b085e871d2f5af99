// The arithmetic of one chunk's pairwise exchange by differences, with the rule of «Overlap»: what both
// drivers, the daemon and the simulator, call between the bytes. Who exchanges with whom, and when to give
// up, is the core's decision.
//
// A peer that has sent its snapshot a of a chunk and awaits the reply has *lent* half of that chunk; the free
// half is worth 2x - a, and that is what others get meanwhile, at half the weight. So every event swaps or
// merges parts of the sum, whatever overlaps with whatever: it conserves, it never expands, and nobody waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "models/arena.h"
#include "training/exchange/values.h"

namespace starling::training {

inline constexpr std::size_t kDefaultChunkFloats = 32 * 1024;  // 128 KiB: chunk x window stays well inside L2
inline constexpr std::size_t kDefaultWindow = 3;               // chunks sent and not yet answered

// How an arena is cut: chunk k covers [k * chunk_floats, ...), the last one may be shorter.
struct ChunkGrid {
  std::size_t arena_floats;
  std::size_t chunk_floats;

  std::size_t count() const { return (arena_floats + chunk_floats - 1) / chunk_floats; }
  std::size_t offset(std::size_t chunk) const { return chunk * chunk_floats; }
  std::size_t floats(std::size_t chunk) const;  // 0 behind the end
};

// Why a partner's chunk was not mixed.
struct ChunkError : Error {
  bool poisoned = false;  // its values may not touch a replica; else order, length or weight break the rules
};

// One per replica; used by one thread at a time, while any number of workers change the arena. Passes over
// one chunk are ordered because that thread makes them.
class PairwiseMixer {
 public:
  // `exact` mixes without losing a concurrent worker's atomic_add, 20 times slower: for tests that want
  // exactness.
  enum class Loss : std::uint8_t { tolerated, exact };

  // `arena` outlives the mixer. REQUIRES: chunk_floats > 0.
  PairwiseMixer(models::Arena& arena, std::size_t chunk_floats, Loss loss = Loss::tolerated);

  const ChunkGrid& grid() const { return grid_; }

  // Initiator. Copies the chunk into `snapshot`, which must stay untouched until complete() or give_up().
  // REQUIRES: the chunk exists and is not lent; snapshot.size() == grid().floats(chunk).
  void lend(std::size_t chunk, std::span<float> snapshot);
  bool lent(std::size_t chunk) const { return chunk < loans_.size() && !loans_[chunk].empty(); }
  // Ends the loan with the reply (theirs, w): x += w (theirs - snapshot). w = 0 mixes nothing and looks at no
  // value. An Error, and the loan given up, where w is none of 0, 1/4, 1/2, a value is not acceptable, or the
  // length is wrong; an Error where the chunk is not lent (a late reply).
  Result<Done, ChunkError> complete(std::size_t chunk, std::span<const float> theirs, float w);
  // Ends the loan, if there is one, without mixing: the reply will be dropped if it comes.
  void give_up(std::size_t chunk);

  // Responder. Snapshots the chunk now that `theirs` has arrived, writes the value to answer with, and mixes
  // at once. Returns the weight to answer with: 1/2, or 1/4 where half of this chunk is lent. An Error
  // (nothing mixed) where there is no such chunk, a value is not acceptable or the length is wrong. REQUIRES:
  // value.size() == grid().floats(chunk) where the chunk exists; it does not overlap `theirs`.
  Result<float, ChunkError> answer(std::size_t chunk, std::span<const float> theirs, std::span<float> value);

 private:
  Result<Done, ChunkError> inspect(std::size_t chunk, std::span<const float> theirs) const;
  void mix(std::size_t chunk, std::span<const float> theirs, std::span<const float> own, float w);

  models::Arena& arena_;
  ChunkGrid grid_;
  Loss loss_;
  std::vector<std::span<const float>> loans_;  // per chunk; empty: nothing lent
  std::vector<float> delta_;                   // scratch of Loss::exact
};

}  // namespace starling::training
