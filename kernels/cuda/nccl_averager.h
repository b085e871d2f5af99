// The mean of vectors on several GPUs by NCCL, which moves them between the devices directly.
#pragma once

#include <memory>
#include <vector>

#include "kernels/averager.h"

namespace starling::kernels::cuda {

// Uses NCCL's all-reduce. Returns null if NCCL is not installed or a device is named twice. Throws
// DeviceError.
std::unique_ptr<Averager> make_nccl_averager(const std::vector<int>& devices);

}  // namespace starling::kernels::cuda
