// Moves the channels that two slices of a batch have in common. Both are plain: [rows, channels, height,
// width], where a row is a sample, or a token.
#pragma once

#include <cstddef>
#include <vector>

#include "training/learning/slices/slice_plan.h"

namespace starling::training {

class SliceCopy {
 public:
  SliceCopy() = default;
  // `plane`: floats of a channel of a row.
  SliceCopy(const Channels& from, const Channels& to, std::size_t rows, std::size_t plane);

  void copy(const float* from, float* to) const;
  void add(const float* from, float* to) const;  // to += from

  std::size_t floats() const;                                       // that it moves
  bool is_complete() const { return floats() == rows_ * to_row_; }  // it writes all of `to`

 private:
  std::vector<SlicePiece> pieces_;
  std::size_t rows_ = 0, from_row_ = 0, to_row_ = 0;
};

}  // namespace starling::training
