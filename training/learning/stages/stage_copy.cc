#include "training/learning/stages/stage_copy.h"

#include <algorithm>

#include "base/check.h"

namespace starling::training {

StageCopy::StageCopy(const models::Layout& layout, const std::vector<std::size_t>& tensors)
    : layout_(layout.only(tensors)) {
  for (const std::size_t i : tensors) {
    const models::Tensor& it = layout_.tensors()[i];
    tensors_.push_back({layout.tensors()[i].offset, it.offset, it.size});
  }
}

std::size_t StageCopy::place_of(std::size_t offset) const {
  const auto after = std::ranges::upper_bound(tensors_, offset, {}, &Piece::arena);
  STARLING_CHECK(after != tensors_.begin());
  const Piece& it = *(after - 1);
  STARLING_CHECK(offset < it.arena + it.count);
  return it.vector + (offset - it.arena);
}

// Tensors begin at multiples of 16 floats in both, so neighbors in the arena have the same gap between them
// in the vector, and gaps are zero.
void StageCopy::join(std::vector<Piece>& pieces, const Piece& next) {
  if (!pieces.empty()) {
    Piece& last = pieces.back();
    const std::size_t distance = next.arena - last.arena;
    if (next.vector - last.vector == distance && distance < last.count + 16) {
      last.count = distance + next.count;
      return;
    }
  }
  pieces.push_back(next);
}

void StageCopy::upload(const float* arena, float* vector, kernels::Queue& queue) const {
  std::vector<Piece> pieces;
  for (const Piece& it : tensors_) join(pieces, it);
  for (const Piece& it : pieces) queue.upload(arena + it.arena, vector + it.vector, it.count * sizeof(float));
}

void StageCopy::download(const float* vector, std::span<const FloatRange> ranges, float* arena,
                         kernels::Queue& queue) const {
  std::vector<Piece> pieces;
  for (const auto& [begin, end] : ranges) join(pieces, {begin, place_of(begin), end - begin});
  for (const Piece& it : pieces)
    queue.download(vector + it.vector, arena + it.arena, it.count * sizeof(float));
}

}  // namespace starling::training
