// What this back end uses of NVIDIA's NCCL, which brings vectors of several GPUs together by the fastest
// links between them. It comes with neither CUDA nor cuDNN, so it is looked for when it is wanted; these
// declarations are of its version 2, whose interface has been the same since 2.10.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

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
  int (*abort)(Communicator communicator);  // what is under way, too; and destroys
  int (*begin_group)();
  int (*end_group)();
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int operation,
                    Communicator communicator, cudaStream_t stream);
  const char* (*word)(int status);
};

// libnccl.so.2 where the system finds one, loaded once; null where it does not.
const Nccl* nccl();
// "NCCL 2.28.3", or "no NCCL".
std::string nccl_version();

}  // namespace starling::kernels::cuda
