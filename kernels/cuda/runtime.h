// This back end's use of CUDA's runtime: a device's memory, pinned host memory, and streams, which are
// queues.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/memory.h"
#include "kernels/queue.h"

namespace starling::kernels::cuda {

// Throw DeviceError unless the call succeeded: "cudaMemcpyAsync failed: unspecified launch failure".
// OutOfDeviceMemory if memory ran out.
void check(cudaError_t status, const char* call);
void check(cublasStatus_t status, const char* call);
void check(cudnnStatus_t status, const char* call);

// Selects the device for the calling thread.
void use_device(int device);

class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(int device) : device_(device) {}
  bool on_host() const override { return false; }
  std::optional<Room> room() const override;
  void* allocate(std::size_t bytes) override;
  void release(void* p) noexcept override;

 private:
  int device_;
};

// Pinned memory of the host, which the device reads and writes directly.
class PinnedMemory final : public Memory {
 public:
  explicit PinnedMemory(int device) : device_(device) {}
  bool on_host() const override { return true; }
  void* allocate(std::size_t bytes) override;
  void release(void* p) noexcept override;

 private:
  int device_;
};

// A CUDA stream with handles of the libraries. One thread at a time uses it.
class Stream final : public Queue {
 public:
  explicit Stream(int device);
  ~Stream() override;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void upload(const void* host, void* device, std::size_t bytes) override;
  void download(const void* device, void* host, std::size_t bytes) override;
  void clear(void* device, std::size_t bytes) override;
  std::size_t workspace_bytes() const override;
  void wait() override;
  std::unique_ptr<Mark> make_mark() override;
  void mark(Mark& mark) override;
  // A recording is a CUDA graph.
  void run(std::unique_ptr<Recording>& recording, const std::function<void()>& work) override;

  int device() const { return device_; }
  cudaStream_t get() const { return stream_; }
  // The libraries' handles, created on the first call, which must not be during a recording.
  cublasHandle_t blas();
  cudnnHandle_t dnn();

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  void* blas_workspace_ = nullptr;  // because cuBLAS cannot allocate one during a recording
};

// This back end's queues are streams.
inline Stream& stream_of(Queue& queue) { return static_cast<Stream&>(queue); }

// A point in a stream's work.
class Event final : public Queue::Mark {
 public:
  explicit Event(int device);
  ~Event() override;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Stream& stream);
  void wait() override;
  bool is_past() override;
  cudaEvent_t get() const { return event_; }

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace starling::kernels::cuda
