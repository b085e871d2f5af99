#include "kernels/buffer.h"

namespace starling::kernels {

Buffer::Buffer(std::size_t floats, Memory& memory)
    : data_(static_cast<float*>(memory.allocate(floats * sizeof(float))), Free(&memory)), size_(floats) {}

}  // namespace starling::kernels
