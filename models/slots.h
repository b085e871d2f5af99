// Decides which values share memory, before any is allocated: a value takes a slot while it is needed,
// released slots are taken again, and in the end a slot is as large as the largest value that was in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/buffer.h"

namespace starling::models {

class Slots {
 public:
  // Takes the smallest free slot that is large enough, else the largest, else a new one.
  int take(std::size_t floats) {
    int best = -1;
    for (int i = 0; i < static_cast<int>(sizes_.size()); ++i) {
      if (taken_[index(i)]) continue;
      if (best < 0 || better(sizes_[index(i)], sizes_[index(best)], floats)) best = i;
    }
    if (best < 0) {
      best = static_cast<int>(sizes_.size());
      sizes_.push_back(0);
      taken_.push_back(false);
    }
    sizes_[index(best)] = std::max(sizes_[index(best)], floats);
    taken_[index(best)] = true;
    return best;
  }
  void release(int slot) { taken_[index(slot)] = false; }

  // Allocates the memory, after all is decided.
  void allocate(kernels::Memory& memory) {
    for (const std::size_t size : sizes_) buffers_.emplace_back(size, memory);
  }
  std::size_t count() const { return sizes_.size(); }
  float* data(int slot) { return buffers_[index(slot)].data(); }

  std::size_t bytes() const {
    std::size_t floats = 0;
    for (const std::size_t size : sizes_) floats += size;
    return floats * sizeof(float);
  }

 private:
  static std::size_t index(int slot) { return static_cast<std::size_t>(slot); }
  static bool better(std::size_t a, std::size_t b, std::size_t wanted) {
    if ((a >= wanted) != (b >= wanted)) return a >= wanted;
    return a >= wanted ? a < b : a > b;
  }

  std::vector<std::size_t> sizes_;
  std::vector<bool> taken_;
  std::vector<kernels::Buffer> buffers_;
};

}  // namespace starling::models
