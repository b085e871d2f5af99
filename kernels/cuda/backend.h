// The back end of one NVIDIA GPU: cuDNN's convolutions, cuBLAS's products, own kernels for all else. float32
// with every digit; tf32, whose convolutions and linear layers round their factors to 10 bits for the tensor
// cores; or bfloat16 between layers, whose loss and parameters stay float32.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace starling::kernels::cuda {

// Throws DeviceError where the device cannot be used.
std::unique_ptr<Backend> make_backend(int device, Precision precision);

}  // namespace starling::kernels::cuda
