// What every function of the emulated libraries does first and last: checks whether it may run, and stores
// the thread's last error. Also the test controls of testing.h.
#pragma once

#include <cuda_runtime_api.h>

namespace starling::emulator {

// Called first in every function: the error that every call currently fails with.
cudaError_t begin_call();
// Called last in every function: stores the thread's last error unless it is a success.
cudaError_t remember(cudaError_t status);
cudaError_t last_error(bool forget);

template <class F>
cudaError_t call(const F& body) {
  const cudaError_t status = begin_call();
  return remember(status == cudaSuccess ? body() : status);
}

}  // namespace starling::emulator
