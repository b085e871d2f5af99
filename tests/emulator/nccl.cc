// NCCL between emulated devices, replacing kernels/cuda/nccl_library.cc, with the names that its nccl.h uses
// for the library's functions. As with real devices, no stream continues before all have met.
#include "kernels/cuda/nccl.h"

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/emulator/device.h"
#include "tests/emulator/enqueue.h"
#include "tests/emulator/memory.h"
#include "tests/emulator/stream.h"

namespace emulator = starling::emulator;

struct ncclComm {
  int device;
  int count;  // number of communicators created together
};

namespace {

using Communicator = starling::kernels::cuda::Nccl::Communicator;

constexpr int kSuccess = 0, kInvalidArgument = 4, kInvalidUsage = 5;  // ncclResult_t
constexpr int kNcclVersion = 22809;

struct Part {
  const float* from;
  float* to;
  std::size_t count;
  Communicator communicator;
  cudaStream_t stream;
};

int key_of(int device) { return emulator::devices()[static_cast<std::size_t>(device)]->memory.key(); }

// The meeting point of a group's streams; the last one does the work for all.
struct Meeting {
  std::vector<Part> parts;
  std::mutex mutex;
  std::condition_variable done;
  std::size_t here = 0;

  void arrive() {
    std::unique_lock lock(mutex);
    if (++here == parts.size()) {
      reduce();
      done.notify_all();
      return;
    }
    // Streams of a lost device never arrive.
    while (here < parts.size() && !emulator::lost()) done.wait_for(lock, std::chrono::milliseconds(10));
  }

  void reduce() const {
    std::list<emulator::Access> access;  // the thread has access only to its own device's memory
    for (const Part& part : parts) access.emplace_back(key_of(part.communicator->device));
    std::vector<float> mean(parts.front().count);
    for (const Part& part : parts)
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += part.from[i];
    const auto share = 1.0F / static_cast<float>(parts.size());
    for (const Part& part : parts)
      for (std::size_t i = 0; i < mean.size(); ++i) part.to[i] = share * mean[i];
  }
};

thread_local std::vector<Part> t_group;

int version(int* number) {
  *number = kNcclVersion;
  return kSuccess;
}

int make(Communicator* communicators, int count, const int* devices) {
  for (int i = 0; i < count; ++i) {
    if (devices[i] < 0 || devices[i] >= static_cast<int>(emulator::devices().size())) return kInvalidArgument;
    for (int j = 0; j < i; ++j)
      if (devices[i] == devices[j]) return kInvalidUsage;
  }
  for (int i = 0; i < count; ++i) communicators[i] = new ncclComm{devices[i], count};
  return kSuccess;
}

int destroy(Communicator communicator) {
  delete communicator;
  return kSuccess;
}

// Streams that wait for a lost device continue by themselves (Meeting::arrive).
int abort_all(Communicator communicator) { return destroy(communicator); }

int begin_group() {
  t_group.clear();
  return kSuccess;
}

int all_reduce(const void* from, void* to, std::size_t count, int type, int operation,
               Communicator communicator, cudaStream_t stream) {
  using starling::kernels::cuda::Nccl;
  if (type != Nccl::kFloat32 || operation != Nccl::kMean) return kInvalidArgument;
  const CUstream_st* const found = emulator::find_stream(stream);
  if (found == nullptr || found->device != communicator->device) return kInvalidUsage;
  if (!emulator::on_device(from, count * sizeof(float)) || !emulator::on_device(to, count * sizeof(float)))
    return kInvalidArgument;
  t_group.push_back({static_cast<const float*>(from), static_cast<float*>(to), count, communicator, stream});
  return kSuccess;
}

// An incomplete group would wait forever.
int end_group() {
  const auto meeting = std::make_shared<Meeting>();
  meeting->parts.swap(t_group);
  if (meeting->parts.empty()) return kSuccess;
  const Part& first = meeting->parts.front();
  if (meeting->parts.size() != static_cast<std::size_t>(first.communicator->count)) return kInvalidUsage;
  for (const Part& part : meeting->parts)
    if (part.count != first.count) return kInvalidArgument;
  for (const Part& part : meeting->parts) emulator::enqueue(part.stream, [meeting] { meeting->arrive(); });
  return kSuccess;
}

const char* word(int status) { return status == kInvalidUsage ? "invalid usage" : "invalid argument"; }

}  // namespace

namespace starling::kernels::cuda {

const Nccl* nccl() {
  static constexpr Nccl kEmulated{version,     make,      destroy,    abort_all,
                                  begin_group, end_group, all_reduce, word};
  return &kEmulated;
}

}  // namespace starling::kernels::cuda
