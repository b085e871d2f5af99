#include "tests/emulator/enqueue.h"

#include <utility>

#include "tests/emulator/block.h"
#include "tests/emulator/calls.h"
#include "tests/emulator/captures.h"
#include "tests/emulator/kernel.h"

namespace starling::emulator {

bool destroy_stream(cudaStream_t handle) {
  if (!forget_stream(handle)) return false;
  abandon_capture(*handle);
  delete handle;
  return true;
}

cudaError_t enqueue(cudaStream_t handle, Work work) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  Work careful = [work = std::move(work)] {
    if (!lost()) work();
  };
  switch (capture(*stream, careful)) {
    case Captured::no:
      stream->push(std::move(careful));
      return cudaSuccess;
    case Captured::yes:
      return cudaSuccess;
    case Captured::ruined:
      break;
  }
  return cudaErrorStreamCaptureInvalidated;
}

cudaError_t enqueue_kernel(cudaStream_t handle, dim3 grid, dim3 block, Work work) {
  return call([&] {
    const CUstream_st* stream = find_stream(handle);
    if (stream == nullptr || stream->device != current_device()) return cudaErrorInvalidResourceHandle;
    if (!fits(grid, block)) return cudaErrorInvalidConfiguration;
    return enqueue(handle, std::move(work));
  });
}

}  // namespace starling::emulator
