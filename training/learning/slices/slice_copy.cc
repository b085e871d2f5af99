#include "training/learning/slices/slice_copy.h"

#include <algorithm>

namespace starling::training {

SliceCopy::SliceCopy(const Channels& from, const Channels& to, std::size_t rows, std::size_t plane)
    : pieces_(common_pieces(from, to, plane)),
      rows_(rows),
      from_row_(static_cast<std::size_t>(count_of(from)) * plane),
      to_row_(static_cast<std::size_t>(count_of(to)) * plane) {
  // Whole rows lie side by side.
  if (pieces_.size() != 1 || pieces_[0].count != from_row_ || from_row_ != to_row_) return;
  from_row_ = to_row_ = pieces_[0].count = rows * from_row_;
  rows_ = 1;
}

void SliceCopy::copy(const float* from, float* to) const {
  for (std::size_t row = 0; row < rows_; ++row) {
    for (const SlicePiece& it : pieces_)
      std::copy_n(from + row * from_row_ + it.from, it.count, to + row * to_row_ + it.to);
  }
}

void SliceCopy::add(const float* from, float* to) const {
  for (std::size_t row = 0; row < rows_; ++row) {
    for (const SlicePiece& it : pieces_) {
      const float* const a = from + row * from_row_ + it.from;
      float* const b = to + row * to_row_ + it.to;
      for (std::size_t i = 0; i < it.count; ++i) b[i] += a[i];
    }
  }
}

std::size_t SliceCopy::floats() const {
  std::size_t floats = 0;
  for (const SlicePiece& it : pieces_) floats += it.count;
  return rows_ * floats;
}

}  // namespace starling::training
