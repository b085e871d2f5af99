#include "kernels/cuda/runtime.h"

#include <algorithm>
#include <cstdio>

namespace starling::kernels::cuda {
namespace {

// cuBLAS's workspace; its manual recommends 32 MiB on Hopper.
constexpr std::size_t kBlasWorkspace = std::size_t{32} << 20;

[[noreturn]] void fail(const std::string& call, const char* reason, bool out_of_memory) {
  cudaGetLastError();  // CUDA repeats an error that is not fetched at the next call
  const std::string message = call + " failed: " + reason;
  if (out_of_memory) throw OutOfDeviceMemory(message);
  throw DeviceError(message);
}

std::string megabytes(std::size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

// The device's memory, or pinned memory of the host, is too small.
[[noreturn]] void fail_out_of_memory(int device, std::size_t bytes) {
  cudaGetLastError();  // CUDA repeats an error that is not fetched at the next call
  const Room room = *DeviceMemory(device).room();
  throw OutOfDeviceMemory("cuda:" + std::to_string(device) + " has no room for " + megabytes(bytes) +
                          " more: " + megabytes(room.free) + " of its " + megabytes(room.total) +
                          " are free; a smaller batch, fewer workers or --recompute need less");
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) fail(call, cudaGetErrorString(status), status == cudaErrorMemoryAllocation);
}

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(call, cublasGetStatusString(status), status == CUBLAS_STATUS_ALLOC_FAILED);
}

void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS)
    fail(call, cudnnGetErrorString(status), status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
}

void use_device(int device) {
  const cudaError_t status = cudaSetDevice(device);
  if (status != cudaSuccess)
    fail("cudaSetDevice(" + std::to_string(device) + ")", cudaGetErrorString(status), false);
}

// Memory

std::optional<Room> DeviceMemory::room() const {
  use_device(device_);
  Room room;
  check(cudaMemGetInfo(&room.free, &room.total), "cudaMemGetInfo");
  return room;
}

void* DeviceMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  use_device(device_);
  void* p = nullptr;
  const cudaError_t status = cudaMalloc(&p, bytes);
  if (status == cudaErrorMemoryAllocation) fail_out_of_memory(device_, bytes);
  check(status, "cudaMalloc");
  check(cudaMemset(p, 0, bytes), "cudaMemset");
  // The null stream cleared it; other streams do not wait for that one.
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  return p;
}

// The memory of a lost device is already released.
void DeviceMemory::release(void* p) noexcept {
  if (p == nullptr) return;
  cudaSetDevice(device_);
  cudaFree(p);
}

void* PinnedMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  use_device(device_);
  void* p = nullptr;
  check(cudaMallocHost(&p, bytes), "cudaMallocHost");
  std::fill_n(static_cast<unsigned char*>(p), bytes, static_cast<unsigned char>(0));
  return p;
}

void PinnedMemory::release(void* p) noexcept {
  if (p == nullptr) return;
  cudaSetDevice(device_);
  cudaFreeHost(p);
}

// Events

Event::Event(int device) : device_(device) {
  use_device(device);
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

Event::~Event() {
  cudaSetDevice(device_);
  cudaEventDestroy(event_);
}

void Event::record(const Stream& stream) { check(cudaEventRecord(event_, stream.get()), "cudaEventRecord"); }

void Event::wait() { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

bool Event::is_past() {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // CUDA repeats an error that is not fetched at the next call
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

// Streams

namespace {

class Graph final : public Queue::Recording {
 public:
  explicit Graph(int device) : device_(device) {}
  ~Graph() override {
    cudaSetDevice(device_);
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }

  void record(cudaStream_t stream, const std::function<void()>& work) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      work();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "cudaGraphInstantiate");
  }

  void launch(cudaStream_t stream) const { check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch"); }

 private:
  int device_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

Stream::Stream(int device) : device_(device) {
  use_device(device);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Stream::~Stream() {
  cudaSetDevice(device_);
  cudaStreamSynchronize(stream_);
  if (dnn_ != nullptr) cudnnDestroy(dnn_);
  if (blas_ != nullptr) cublasDestroy(blas_);
  DeviceMemory(device_).release(blas_workspace_);
  cudaStreamDestroy(stream_);
}

cublasHandle_t Stream::blas() {
  if (blas_ != nullptr) return blas_;
  use_device(device_);
  check(cublasCreate(&blas_), "cublasCreate");
  check(cublasSetStream(blas_, stream_), "cublasSetStream");
  blas_workspace_ = DeviceMemory(device_).allocate(kBlasWorkspace);
  check(cublasSetWorkspace(blas_, blas_workspace_, kBlasWorkspace), "cublasSetWorkspace");
  return blas_;
}

cudnnHandle_t Stream::dnn() {
  if (dnn_ != nullptr) return dnn_;
  use_device(device_);
  check(cudnnCreate(&dnn_), "cudnnCreate");
  check(cudnnSetStream(dnn_, stream_), "cudnnSetStream");
  return dnn_;
}

void Stream::upload(const void* host, void* device, std::size_t bytes) {
  use_device(device_);  // for the calling thread
  check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
}

void Stream::download(const void* device, void* host, std::size_t bytes) {
  use_device(device_);
  check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
}

void Stream::clear(void* device, std::size_t bytes) {
  use_device(device_);
  if (bytes > 0) check(cudaMemsetAsync(device, 0, bytes, stream_), "cudaMemsetAsync");
}

std::size_t Stream::workspace_bytes() const { return blas_workspace_ == nullptr ? 0 : kBlasWorkspace; }

void Stream::wait() { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

std::unique_ptr<Queue::Mark> Stream::make_mark() { return std::make_unique<Event>(device_); }

void Stream::mark(Mark& mark) { static_cast<Event&>(mark).record(*this); }

void Stream::run(std::unique_ptr<Recording>& recording, const std::function<void()>& work) {
  use_device(device_);
  if (!recording) {
    auto graph = std::make_unique<Graph>(device_);
    graph->record(stream_, work);
    recording = std::move(graph);
  }
  static_cast<Graph&>(*recording).launch(stream_);
}

}  // namespace starling::kernels::cuda
