#include "kernels/cuda/wide.h"

namespace starling::kernels::cuda {

unsigned counted(std::size_t n) {
  if (n <= 0x7fffffff) return static_cast<unsigned>(n);
  throw DeviceError("a layer's " + std::to_string(n) +
                    " values are more than the device's kernels can count; a smaller batch has fewer");
}

}  // namespace starling::kernels::cuda
