// Work for streams: queued, or recorded if the stream is captured.
#pragma once

#include "tests/emulator/stream.h"

namespace starling::emulator {

// Queues work on the stream, or captures it. Dropped if the device is lost.
cudaError_t enqueue(cudaStream_t handle, Work work);

// Destroys the stream once its work is done. False if there is no such stream.
bool destroy_stream(cudaStream_t handle);

}  // namespace starling::emulator
