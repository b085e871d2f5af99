#include "tests/emulator/captures.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace starling::emulator {

namespace {

struct Captures {
  std::mutex mutex;
  std::vector<std::shared_ptr<Capture>> all;
};

Captures& captures() {
  static auto* made = new Captures;
  return *made;
}

void forget(const std::shared_ptr<Capture>& capture) {
  for (CUstream_st* stream : capture->streams) stream->capture = nullptr;
  std::erase(captures().all, capture);
}

}  // namespace

Captured capture(CUstream_st& stream, const Work& work) {
  const std::lock_guard lock(captures().mutex);
  if (stream.capture == nullptr) return Captured::no;
  if (!stream.capture->valid) return Captured::ruined;
  stream.capture->work.push_back(work);
  return Captured::yes;
}

std::shared_ptr<Capture> capture_of(CUstream_st& stream) {
  const std::lock_guard lock(captures().mutex);
  return stream.capture;
}

bool join_capture(CUstream_st& stream, const std::shared_ptr<Capture>& capture) {
  const std::lock_guard lock(captures().mutex);
  if (stream.capture == capture) return true;
  if (stream.capture != nullptr) return false;
  stream.capture = capture;
  capture->streams.push_back(&stream);
  return true;
}

void abandon_capture(CUstream_st& stream) {
  const std::lock_guard lock(captures().mutex);
  const auto capture = stream.capture;
  if (capture == nullptr) return;
  capture->valid = false;
  std::erase(capture->streams, &stream);
  if (capture->origin == &stream) forget(capture);
}

cudaError_t check_no_capture() {
  const std::lock_guard lock(captures().mutex);
  cudaError_t status = cudaSuccess;
  for (const auto& capture : captures().all) {
    const bool concerned =
        capture->mode == cudaStreamCaptureModeGlobal ||
        (capture->mode == cudaStreamCaptureModeThreadLocal && capture->thread == std::this_thread::get_id());
    if (!concerned) continue;
    capture->valid = false;
    status = cudaErrorStreamCaptureUnsupported;
  }
  return status;
}

cudaError_t check_not_captured(CUstream_st& stream) {
  const std::lock_guard lock(captures().mutex);
  if (stream.capture == nullptr) return cudaSuccess;
  stream.capture->valid = false;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t ruin(const std::shared_ptr<Capture>& capture, cudaError_t status) {
  const std::lock_guard lock(captures().mutex);
  capture->valid = false;
  return status;
}

cudaStreamCaptureStatus capture_status(CUstream_st& stream) {
  const std::lock_guard lock(captures().mutex);
  if (stream.capture == nullptr) return cudaStreamCaptureStatusNone;
  return stream.capture->valid ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated;
}

cudaError_t begin_capture(CUstream_st& stream, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(captures().mutex);
  if (stream.capture != nullptr) return cudaErrorIllegalState;
  stream.capture =
      std::make_shared<Capture>(Capture{mode, std::this_thread::get_id(), &stream, true, {&stream}, {}});
  captures().all.push_back(stream.capture);
  return cudaSuccess;
}

cudaError_t end_capture(CUstream_st& stream, std::vector<Work>& work) {
  const std::lock_guard lock(captures().mutex);
  const auto capture = stream.capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != &stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  forget(capture);
  if (!capture->valid) return cudaErrorStreamCaptureInvalidated;
  work = std::move(capture->work);
  return cudaSuccess;
}

}  // namespace starling::emulator
