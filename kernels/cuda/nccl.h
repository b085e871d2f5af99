// The functions of NVIDIA's NCCL, which averages vectors of several GPUs over the fastest links between them.
// It is part of neither CUDA nor cuDNN, so it is loaded at run time. The declarations are of version 2, whose
// interface has not changed since 2.10.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/averager.h"

struct ncclComm;

namespace starling::kernels::cuda {

struct Nccl {
  using Communicator = ncclComm*;
  static constexpr int kSuccess = 0;
  static constexpr int kFloat32 = 7;  // ncclDataType_t
  static constexpr int kMean = 4;     // ncclRedOp_t

  int (*version)(int* number);
  int (*make)(Communicator* communicators, int count, const int* devices);
  int (*destroy)(Communicator communicator);
  int (*abort)(Communicator communicator);  // also aborts work in progress, and destroys the communicator
  int (*begin_group)();
  int (*end_group)();
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int operation,
                    Communicator communicator, cudaStream_t stream);
  const char* (*word)(int status);
};

// Loads libnccl.so.2 once; null if the system has none.
const Nccl* nccl();
// "NCCL 2.28.3", or "no NCCL".
std::string nccl_version();

// The mean of vectors on several GPUs by NCCL's all-reduce. Null if NCCL is not installed or a device occurs
// twice. Throws DeviceError.
std::unique_ptr<Averager> make_nccl_averager(const std::vector<int>& devices);

}  // namespace starling::kernels::cuda
