// Streams and arrays of the emulated device for its tests.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "tests/catch.h"
#include "tests/emulator/kernel.h"

// After the names that it uses.
#include "kernels/cuda/launch.h"

namespace starling::emulator {

struct OwnStream {
  OwnStream() { REQUIRE(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess); }
  ~OwnStream() { cudaStreamDestroy(handle); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  void wait() const { REQUIRE(cudaStreamSynchronize(handle) == cudaSuccess); }
  cudaStream_t handle = nullptr;
};

// Values in device memory.
template <class T>
struct DeviceArray {
  explicit DeviceArray(std::size_t count) : size(count) {
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, count * sizeof(T)) == cudaSuccess);
    data = static_cast<T*>(p);
  }
  explicit DeviceArray(const std::vector<float>& values) : DeviceArray(values.size()) {
    std::vector<T> there;
    for (const float value : values) there.push_back(kernels::cuda::from_float<T>(value));
    REQUIRE(cudaMemcpy(data, there.data(), size * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  std::vector<float> read() const {
    std::vector<T> here(size);
    REQUIRE(cudaMemcpy(here.data(), data, size * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
    std::vector<float> values;
    for (const T value : here) values.push_back(kernels::cuda::to_float(value));
    return values;
  }
  T* data;
  std::size_t size;
};

// Numbers that bfloat16 represents exactly, without equal neighbors.
inline std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    values.push_back(static_cast<float>(static_cast<int>(seed >> 28) - 8) / 4);
  }
  return values;
}

}  // namespace starling::emulator
