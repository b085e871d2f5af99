// Stream capture: calls on a captured stream are recorded for a graph instead of executed. Calls that are
// illegal during a capture invalidate it, as on a device.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/emulator/stream.h"

namespace starling::emulator {

// A capture by one stream and those that waited for its events since. Guarded by the mutex of captures.cc.
struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;  // that started it
  CUstream_st* origin;
  bool valid = true;
  std::vector<CUstream_st*> streams;
  std::vector<Work> work;  // in call order, which is a valid execution order
};

enum class Captured { no, yes, ruined };

// Records a stream's work if the stream is captured.
Captured capture(CUstream_st& stream, const Work& work);
// The current capture of the stream, or null.
std::shared_ptr<Capture> capture_of(CUstream_st& stream);
// Adds the stream to the capture. False if it belongs to another one.
bool join_capture(CUstream_st& stream, const std::shared_ptr<Capture>& capture);
// Called before the stream is destroyed.
void abandon_capture(CUstream_st& stream);

// For calls that are illegal for a thread that captures: returns cudaErrorStreamCaptureUnsupported and
// invalidates the captures.
cudaError_t check_no_capture();
// The same for calls that are illegal on a captured stream.
cudaError_t check_not_captured(CUstream_st& stream);

// Invalidates the capture; the call returns `status`.
cudaError_t ruin(const std::shared_ptr<Capture>& capture, cudaError_t status);
cudaStreamCaptureStatus capture_status(CUstream_st& stream);

cudaError_t begin_capture(CUstream_st& stream, cudaStreamCaptureMode mode);
// Moves the recorded work to `work`.
cudaError_t end_capture(CUstream_st& stream, std::vector<Work>& work);

}  // namespace starling::emulator
