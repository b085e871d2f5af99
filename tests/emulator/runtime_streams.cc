// CUDA's functions for streams, events and graphs.
#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/emulator/calls.h"
#include "tests/emulator/captures.h"
#include "tests/emulator/device.h"
#include "tests/emulator/enqueue.h"
#include "tests/emulator/stream.h"

namespace emulator = starling::emulator;

struct CUevent_st {
  unsigned flags;
  int device;
  std::mutex mutex;
  std::shared_ptr<emulator::Instant> instant;  // last recording, or null
  std::shared_ptr<emulator::Capture> capture;  // the capture of the last recording, or null
};

struct CUgraph_st {
  std::shared_ptr<const std::vector<emulator::Work>> work;
};

// Only one replay of it runs at a time, on any stream.
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<emulator::Work>> work;
  std::shared_ptr<std::mutex> running = std::make_shared<std::mutex>();
};

namespace {

using emulator::call;
using emulator::find_stream;
using emulator::Instant;

// Runs an operation on an existing stream, then checks whether the device is lost.
template <class F>
cudaError_t with_stream(cudaStream_t handle, const F& body) {
  return call([&] {
    CUstream_st* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const cudaError_t status = body(*stream);
    return status == cudaSuccess && emulator::lost() ? cudaErrorDevicesUnavailable : status;
  });
}

cudaError_t make_stream(cudaStream_t* stream) {
  return call([&] {
    *stream = emulator::create_stream();
    return cudaSuccess;
  });
}

// Checks that the host may wait for this event; gives the last recording, or null.
cudaError_t recorded(cudaEvent_t event, std::shared_ptr<Instant>& instant) {
  const std::lock_guard lock(event->mutex);
  if (event->capture != nullptr) return cudaErrorCapturedEvent;
  instant = event->instant;
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return make_stream(stream); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return make_stream(stream); }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&] {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

// Works on a lost device too. The stream's work is done on return.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t status = call([] { return cudaSuccess; });
  if (status == cudaErrorNotPermitted) return status;
  return emulator::destroy_stream(stream) ? status : emulator::remember(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return with_stream(handle, [](CUstream_st& stream) {
    const cudaError_t status = emulator::check_not_captured(stream);
    if (status == cudaSuccess) stream.drain();
    return status;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return with_stream(handle, [](CUstream_st& stream) {
    if (const cudaError_t status = emulator::check_not_captured(stream); status != cudaSuccess) return status;
    return stream.idle() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([] {
    if (const cudaError_t status = emulator::check_no_capture(); status != cudaSuccess) return status;
    emulator::drain_all();
    return emulator::lost() ? cudaErrorDevicesUnavailable : cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call([&] {
    return emulator::enqueue(stream, [function, data, key = emulator::device().memory.key()] {
      const emulator::Access none(key, false);  // host code, although a stream's thread calls it
      function(data);
    });
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return with_stream(handle, [&](CUstream_st& stream) {
    const std::lock_guard lock(event->mutex);
    const auto own = emulator::capture_of(stream);
    if (event->capture != nullptr) {
      return emulator::join_capture(stream, event->capture) ? cudaSuccess : cudaErrorStreamCaptureMerge;
    }
    if (own != nullptr) return emulator::ruin(own, cudaErrorStreamCaptureIsolation);
    if (event->instant != nullptr) stream.push([instant = event->instant] { instant->wait(); });
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&] {
    *event = new CUevent_st{flags, emulator::current_device(), {}, nullptr, nullptr};
    return cudaSuccess;
  });
}

// Works on a lost device too.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const cudaError_t status = call([] { return cudaSuccess; });
  delete event;
  return status;
}

// In a captured stream it only orders the captured work.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return with_stream(handle, [&](CUstream_st& stream) {
    if (event->device != stream.device) return cudaErrorInvalidResourceHandle;
    const std::lock_guard lock(event->mutex);
    event->capture = emulator::capture_of(stream);
    if (event->capture != nullptr) return cudaSuccess;
    event->instant = std::make_shared<Instant>();
    stream.push([instant = event->instant] { instant->come(); });
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&] {
    std::shared_ptr<Instant> instant;
    if (const cudaError_t status = recorded(event, instant); status != cudaSuccess) return status;
    if (instant != nullptr) instant->wait();
    return emulator::lost() ? cudaErrorDevicesUnavailable : cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&] {
    if (const cudaError_t status = emulator::check_no_capture(); status != cudaSuccess) return status;
    std::shared_ptr<Instant> instant;
    if (const cudaError_t status = recorded(event, instant); status != cudaSuccess) return status;
    return instant == nullptr || instant->is_past() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call([&] {
    std::shared_ptr<Instant> from, to;
    for (const auto& [event, instant] : {std::pair(start, &from), std::pair(end, &to)}) {
      if ((event->flags & cudaEventDisableTiming) != 0) return cudaErrorInvalidResourceHandle;
      if (const cudaError_t status = recorded(event, *instant); status != cudaSuccess) return status;
      if (*instant == nullptr) return cudaErrorInvalidResourceHandle;
      if (!(*instant)->is_past()) return cudaErrorNotReady;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(to->when() - from->when()).count();
    return cudaSuccess;
  });
}

// The default stream cannot be captured.
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return with_stream(handle, [&](CUstream_st& stream) {
    return &stream == handle ? emulator::begin_capture(stream, mode) : cudaErrorStreamCaptureUnsupported;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  return with_stream(handle, [&](CUstream_st& stream) {
    std::vector<emulator::Work> work;
    const cudaError_t status = emulator::end_capture(stream, work);
    if (status != cudaSuccess) return status;
    *graph = new CUgraph_st{std::make_shared<const std::vector<emulator::Work>>(std::move(work))};
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* answer) {
  return with_stream(handle, [&](CUstream_st& stream) {
    *answer = emulator::capture_status(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return call([&] {
    *made = new CUgraphExec_st{graph->work};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream) {
  return with_stream(stream, [](CUstream_st&) { return cudaSuccess; });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return call([&] {
    return emulator::enqueue(stream, [work = graph->work, running = graph->running] {
      const std::lock_guard lock(*running);
      for (const auto& one : *work) one();
    });
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return call([] { return cudaSuccess; });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return call([] { return cudaSuccess; });
}
