// CUDA's functions for memory: allocations, copies, fills.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "tests/emulator/calls.h"
#include "tests/emulator/captures.h"
#include "tests/emulator/device.h"
#include "tests/emulator/enqueue.h"
#include "tests/emulator/pinned.h"
#include "tests/emulator/stream.h"

namespace starling::emulator {

namespace {

// Whether the range is in host memory or in one device allocation.
bool is_sound(const void* p, std::size_t bytes) { return device_of(p) == nullptr || on_device(p, bytes); }

bool fits(cudaMemcpyKind kind, const void* to, const void* from) {
  const bool to_device = device_of(to) != nullptr, from_device = device_of(from) != nullptr;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !from_device && !to_device;
    case cudaMemcpyHostToDevice:
      return !from_device && to_device;
    case cudaMemcpyDeviceToHost:
      return from_device && !to_device;
    case cudaMemcpyDeviceToDevice:
      return from_device && to_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

// Reads and writes only in stream order, even where a real driver would copy pageable memory immediately.
cudaError_t enqueue_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                         cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!fits(kind, to, from)) return cudaErrorInvalidMemcpyDirection;
  if (!is_sound(to, bytes) || !is_sound(from, bytes)) return cudaErrorInvalidValue;
  const auto key = [](const void* p) {
    const Device* d = device_of(p);
    return d == nullptr ? -1 : d->memory.key();
  };
  return enqueue(stream, [=, to_key = key(to), from_key = key(from)] {
    const Access reads(from_key), writes(to_key);  // possibly of another device than the stream's
    std::memcpy(to, from, bytes);
  });
}

cudaError_t enqueue_fill(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!on_device(to, bytes) && !is_pinned(to, bytes)) return cudaErrorInvalidValue;
  return enqueue(stream, [=] { std::memset(to, value, bytes); });
}

// Pageable memory cannot be used in a replay.
cudaError_t check_pageable(CUstream_st* stream, const void* p, std::size_t bytes) {
  if (stream == nullptr || device_of(p) != nullptr || is_pinned(p, bytes)) return cudaSuccess;
  return check_not_captured(*stream);
}

// Works on a lost device too, so that tests can count leaks.
cudaError_t release(void* p, bool (*give_back)(void*)) {
  const cudaError_t status = call(check_no_capture);
  if (p == nullptr || (status != cudaSuccess && status != cudaErrorDevicesUnavailable)) return status;
  drain_all();
  return give_back(p) ? status : remember(cudaErrorInvalidValue);
}

}  // namespace

}  // namespace starling::emulator

namespace emulator = starling::emulator;

cudaError_t cudaMalloc(void** p, size_t bytes) {
  return emulator::call([&] {
    if (const cudaError_t status = emulator::check_no_capture(); status != cudaSuccess) return status;
    *p = bytes == 0 ? nullptr : emulator::device().memory.allocate(bytes);
    return *p == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFree(void* p) {
  return emulator::release(p, [](void* begin) {
    emulator::Device* device = emulator::device_of(begin);
    return device != nullptr && device->memory.release(begin);
  });
}

cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) {
  return emulator::call([&] {
    if (const cudaError_t status = emulator::check_no_capture(); status != cudaSuccess) return status;
    *p = bytes == 0 ? nullptr : emulator::allocate_pinned(bytes);
    return *p == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** p, size_t bytes) { return cudaHostAlloc(p, bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void* p) { return emulator::release(p, emulator::release_pinned); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return emulator::call([&] {
    const auto& memory = emulator::device().memory;
    *total = memory.limit();
    *free = *total - std::min(*total, memory.used());
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return emulator::call([&] {
    CUstream_st* found = emulator::find_stream(stream);
    for (const void* p : {static_cast<const void*>(to), from}) {
      const cudaError_t status = emulator::check_pageable(found, p, bytes);
      if (status != cudaSuccess) return status;
    }
    return emulator::enqueue_copy(to, from, bytes, kind, stream);
  });
}

// Copies between device addresses are asynchronous.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return emulator::call([&] {
    if (const cudaError_t status = emulator::check_no_capture(); status != cudaSuccess) return status;
    const cudaError_t status = emulator::enqueue_copy(to, from, bytes, kind, nullptr);
    const bool on_host = emulator::device_of(to) == nullptr || emulator::device_of(from) == nullptr;
    if (status == cudaSuccess && on_host) emulator::find_stream(nullptr)->drain();
    return emulator::lost() ? cudaErrorDevicesUnavailable : status;
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return emulator::call([&] { return emulator::enqueue_fill(to, value, bytes, stream); });
}

// Asynchronous: work of the default stream.
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return emulator::call([&] {
    if (const cudaError_t status = emulator::check_no_capture(); status != cudaSuccess) return status;
    return emulator::enqueue_fill(to, value, bytes, nullptr);
  });
}
