#pragma once

#include <memory>
#include <vector>

#include "kernels/averager.h"

namespace starling::kernels::cuda {

// By NCCL's all-reduce; null where there is no NCCL, or a device is named twice. Throws DeviceError.
std::unique_ptr<Averager> make_nccl_averager(const std::vector<int>& devices);

}  // namespace starling::kernels::cuda
