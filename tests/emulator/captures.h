// Streams that are captured: what is asked of them is kept instead of done, for a graph that replays it. And
// the calls that must not be made meanwhile, which ruin the capture as they do on a device.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/emulator/stream.h"

namespace starling::emulator {

// By one stream, and those that waited for an event of it since. Guarded by captures.cc's mutex.
struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;  // that began it
  CUstream_st* origin;
  bool valid = true;
  std::vector<CUstream_st*> streams;
  std::vector<Work> work;  // in the order of the calls, in which it may be done
};

enum class Captured { no, yes, ruined };

// Takes a stream's work, if the stream is captured.
Captured capture(CUstream_st& stream, const Work& work);
// What captures the stream just now, or null.
std::shared_ptr<Capture> capture_of(CUstream_st& stream);
// The stream takes part in the capture from now on. False: it takes part in another one.
bool join_capture(CUstream_st& stream, const std::shared_ptr<Capture>& capture);
// The stream is about to end.
void abandon_capture(CUstream_st& stream);

// For calls that no thread may make while it captures: cudaErrorStreamCaptureUnsupported, and the captures
// are ruined.
cudaError_t check_no_capture();
// The same for calls that may not concern a stream that is captured.
cudaError_t check_not_captured(CUstream_st& stream);

// The capture is ruined, which a call returns as `status`.
cudaError_t ruin(const std::shared_ptr<Capture>& capture, cudaError_t status);
cudaStreamCaptureStatus capture_status(CUstream_st& stream);

cudaError_t begin_capture(CUstream_st& stream, cudaStreamCaptureMode mode);
// The work, in `work`.
cudaError_t end_capture(CUstream_st& stream, std::vector<Work>& work);

}  // namespace starling::emulator
