#include "kernels/buffer.h"

#include <algorithm>
#include <new>

namespace starling::kernels {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

void Buffer::Free::operator()(float* p) const {
  ::operator delete[](p, kAlignment);
}

Buffer::Buffer(std::size_t floats)
    : data_(static_cast<float*>(::operator new[](floats * sizeof(float), kAlignment))), size_(floats) {
  std::fill_n(data_.get(), floats, 0.0F);
}

}  // namespace starling::kernels
