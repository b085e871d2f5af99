// What a stage reads of an arena on the host, as a vector in the memory of its device: the tensors of the
// stage without the others.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/queue.h"
#include "models/layout.h"
#include "training/learning/stages/stage_layers.h"

namespace starling::training {

class StageCopy {
 public:
  StageCopy() = default;
  // `tensors`: indices into the layout of the arena, ascending.
  StageCopy(const models::Layout& layout, const std::vector<std::size_t>& tensors);

  // Of the vector.
  const models::Layout& layout() const { return layout_; }
  std::size_t floats() const { return layout_.arena_size(); }
  // Where the vector has a float of the arena. REQUIRES: it is of one of the tensors.
  std::size_t place_of(std::size_t offset) const;

  // Copies all tensors, or these ranges of the arena, each a whole tensor. In the order of the queue: what is
  // on the host may not change, and is not there, before its work is done.
  void upload(const float* arena, float* vector, kernels::Queue& queue) const;
  void download(const float* vector, std::span<const FloatRange> ranges, float* arena,
                kernels::Queue& queue) const;

 private:
  // Floats that lie side by side in both.
  struct Piece {
    std::size_t arena, vector, count;
  };
  static void join(std::vector<Piece>& pieces, const Piece& next);

  models::Layout layout_;
  std::vector<Piece> tensors_;  // by offset
};

}  // namespace starling::training
