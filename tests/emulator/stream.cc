#include "tests/emulator/stream.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

namespace starling::emulator {

namespace {

thread_local bool t_in_stream = false;

// All streams, including a default one per device. They outlive main().
struct Streams {
  std::mutex mutex;
  std::set<CUstream_st*> all;
  std::vector<CUstream_st*> defaults = std::vector<CUstream_st*>(devices().size(), nullptr);
};

Streams*& current_streams() {
  static Streams* current = [] {
    // A forked process has no stream threads, and death tests fork.
    pthread_atfork(nullptr, nullptr, [] { current_streams() = new Streams; });
    return new Streams;
  }();
  return current;
}

Streams& streams() { return *current_streams(); }

}  // namespace

void Instant::come() {
  when_ = std::chrono::steady_clock::now();
  come_.store(true);
  come_.notify_all();
}

CUstream_st* create_stream() {
  auto* stream = new CUstream_st(current_device());
  const std::lock_guard lock(streams().mutex);
  streams().all.insert(stream);
  return stream;
}

CUstream_st* find_stream(cudaStream_t handle) {
  const std::lock_guard lock(streams().mutex);
  if (handle == nullptr || handle == cudaStreamLegacy) {
    CUstream_st*& stream = streams().defaults[static_cast<std::size_t>(current_device())];
    if (stream == nullptr) stream = new CUstream_st(current_device());
    return stream;
  }
  return streams().all.contains(handle) ? handle : nullptr;
}

bool forget_stream(cudaStream_t handle) {
  const std::lock_guard lock(streams().mutex);
  return streams().all.erase(handle) == 1;
}

void drain_all() {
  if (t_in_stream) return;  // would deadlock
  std::vector<CUstream_st*> all;
  {
    const std::lock_guard lock(streams().mutex);
    all.assign(streams().all.begin(), streams().all.end());
    std::copy_if(streams().defaults.begin(), streams().defaults.end(), std::back_inserter(all),
                 [](const CUstream_st* s) { return s != nullptr; });
  }
  for (CUstream_st* stream : all) stream->drain();
}

bool in_stream() { return t_in_stream; }

}  // namespace starling::emulator

using starling::emulator::Access;
using starling::emulator::Instant;
using starling::emulator::Work;

CUstream_st::CUstream_st(int number) : device(number), thread_([this] { run(); }) {}

CUstream_st::~CUstream_st() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  more_.notify_one();
  thread_.join();
}

void CUstream_st::push(Work work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  more_.notify_one();
}

void CUstream_st::drain() {
  const auto end = std::make_shared<Instant>();
  push([end] { end->come(); });
  end->wait();
}

bool CUstream_st::idle() const {
  const std::lock_guard lock(mutex_);
  return work_.empty() && !busy_;
}

void CUstream_st::run() {
  starling::emulator::t_in_stream = true;
  const Access access(starling::emulator::devices()[static_cast<std::size_t>(device)]->memory.key());
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return !work_.empty() || ends_; });
    if (work_.empty()) return;
    busy_ = true;
    {
      const Work work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
    }
    lock.lock();
    busy_ = false;
  }
}
