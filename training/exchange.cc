#include "training/exchange.h"

#include <algorithm>
#include <string>
#include <utility>

namespace starling::training {
namespace {

// Calls pass(begin, count) for blocks of [0, n), the last one first. Workers' updates run upwards through the
// arena: a mix that did so too could keep step with one for a whole chunk, and every element they touch
// together may lose an update. Running against them, the two meet once, in one block.
template <class Pass>
void downwards(std::size_t n, Pass pass) {
  constexpr std::size_t kBlock = 512;  // floats
  while (n > 0) {
    const std::size_t count = (n - 1) % kBlock + 1;
    n -= count;
    pass(n, count);
  }
}

}  // namespace

std::size_t ChunkGrid::floats(std::size_t chunk) const {
  if (chunk >= count()) return 0;
  return std::min(chunk_floats, arena_floats - offset(chunk));
}

PairwiseMixer::PairwiseMixer(models::Arena& arena, std::size_t chunk_floats, Loss loss)
    : arena_(arena), grid_{arena.size(), chunk_floats}, loss_(loss) {
  STARLING_CHECK(chunk_floats > 0);
  loans_.resize(grid_.count());
  if (loss_ == Loss::exact) delta_.resize(chunk_floats);
}

void PairwiseMixer::lend(std::size_t chunk, std::span<float> snapshot) {
  STARLING_CHECK(chunk < grid_.count() && !lent(chunk));
  STARLING_CHECK(snapshot.size() == grid_.floats(chunk));
  arena_.read(grid_.offset(chunk), snapshot);
  loans_[chunk] = snapshot;
}

Result<Done, ChunkError> PairwiseMixer::complete(std::size_t chunk, std::span<const float> theirs, float w) {
  if (!lent(chunk))
    return ChunkError{{"chunk " + std::to_string(chunk) + " is not lent: the reply comes too late"}};
  const std::span<const float> own = std::exchange(loans_[chunk], {});
  if (w == 0) return Done{};
  if (w != 0.25f && w != 0.5f) {
    return ChunkError{{"chunk " + std::to_string(chunk) + " came with the weight " + std::to_string(w) +
                       "; accepted are 0, 0.25 and 0.5"}};
  }
  if (auto fit = inspect(chunk, theirs); !fit) return fit;
  mix(chunk, theirs, own, w);
  return Done{};
}

void PairwiseMixer::give_up(std::size_t chunk) {
  if (chunk < loans_.size()) loans_[chunk] = {};
}

Result<float, ChunkError> PairwiseMixer::answer(std::size_t chunk, std::span<const float> theirs,
                                                std::span<float> value) {
  if (auto fit = inspect(chunk, theirs); !fit) return fit.error();
  STARLING_CHECK(value.size() == theirs.size());
  const std::size_t offset = grid_.offset(chunk);
  const std::span<const float> loan = loans_[chunk];
  const float w = loan.empty() ? 0.5f : 0.25f;
  if (loss_ == Loss::exact) {
    arena_.read(offset, value);
    for (std::size_t i = 0; i < loan.size(); ++i) value[i] = 2 * value[i] - loan[i];
    mix(chunk, theirs, value, w);
  } else if (loan.empty()) {
    downwards(value.size(), [&](std::size_t begin, std::size_t count) {
      arena_.swap_and_mix(offset + begin, theirs.subspan(begin, count), w, value.subspan(begin, count));
    });
  } else {
    downwards(value.size(), [&](std::size_t begin, std::size_t count) {
      arena_.swap_and_mix_free_half(offset + begin, theirs.subspan(begin, count), loan.subspan(begin, count),
                                    w, value.subspan(begin, count));
    });
  }
  return w;
}

// What a peer sent, before it touches the arena.
Result<Done, ChunkError> PairwiseMixer::inspect(std::size_t chunk, std::span<const float> theirs) const {
  if (chunk >= grid_.count()) {
    return ChunkError{
        {"there is no chunk " + std::to_string(chunk) + "; the arena has " + std::to_string(grid_.count())}};
  }
  if (theirs.size() != grid_.floats(chunk)) {
    return ChunkError{{"chunk " + std::to_string(chunk) + " came with " + std::to_string(theirs.size()) +
                       " floats, expected " + std::to_string(grid_.floats(chunk))}};
  }
  if (!all_acceptable(theirs)) {
    return ChunkError{
        {"chunk " + std::to_string(chunk) +
         (all_finite(theirs) ? " holds a value beyond 2^60" : " holds a value that is not finite")},
        true};
  }
  return Done{};
}

void PairwiseMixer::mix(std::size_t chunk, std::span<const float> theirs, std::span<const float> own,
                        float w) {
  const std::size_t offset = grid_.offset(chunk);
  if (loss_ == Loss::tolerated) {
    downwards(theirs.size(), [&](std::size_t begin, std::size_t count) {
      arena_.mix(offset + begin, theirs.subspan(begin, count), own.subspan(begin, count), w);
    });
    return;
  }
  const std::span<float> delta = std::span(delta_).first(theirs.size());
  for (std::size_t i = 0; i < delta.size(); ++i) delta[i] = w * (theirs[i] - own[i]);
  arena_.atomic_add(offset, delta);
}

}  // namespace starling::training
