#include "tests/emulator/block.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/emulator/fiber.h"
#include "tests/emulator/indices.h"

namespace starling::emulator {

namespace {

[[noreturn]] void misuse(const char* sentence) {
  std::fprintf(stderr, "emulated device: block (%u, %u, %u), thread (%u, %u, %u): %s\n", blockIdx.x,
               blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, sentence);
  std::abort();
}

// A meeting point: a wait ends when the count it waits on changes.
struct Meeting {
  unsigned arrived = 0;
  unsigned count = 0;  // completed meetings
};

struct Warp {
  Meeting meeting;
  // Two shuffles in a row: a lane may start the second before others have read the first.
  std::array<std::array<std::array<std::byte, kShuffleBytes>, kLanes>, 2> values;
  int bits = 0;
  std::size_t bytes = 0;
};
constexpr int kGathers = -1;  // instead of the bits of a shuffle

// The fibers of a CPU thread, reused across blocks and kernels.
class Block {
 public:
  void run(dim3 extent, void (*thread)(const void*), const void* context);
  void meet();
  void shuffle(void* value, std::size_t bytes, int bits);
  void gather(const void* value, std::size_t bytes, void* to);
  unsigned lane() const { return current_ % kLanes; }

 private:
  struct Thread {
    Fiber fiber;
    const Meeting* waits_for = nullptr;
    unsigned since = 0;  // the count when it started waiting
  };

  using Values = std::array<std::array<std::byte, kShuffleBytes>, kLanes>;
  // Adds the lane's value to those of its warp and returns them when all have; `bits`: of the shuffle.
  const Values& exchange(const void* value, std::size_t bytes, int bits);
  // Waits until `members` have arrived.
  void wait(Meeting& meeting, unsigned members);
  void resume(unsigned i, uint3 index);
  static void enter(void* block);

  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Warp> warps_;
  Meeting all_;
  unsigned size_ = 0, ended_ = 0;
  unsigned current_ = 0;  // the running thread
  void (*entry_)(const void*) = nullptr;
  const void* context_ = nullptr;
};

thread_local Block t_block;
thread_local Block* t_running = nullptr;  // null: the kernel was not launched together

void Block::enter(void* block) {
  auto* self = static_cast<Block*>(block);
  self->entry_(self->context_);
}

void Block::run(dim3 extent, void (*thread)(const void*), const void* context) {
  size_ = extent.x * extent.y * extent.z;
  ended_ = 0;
  entry_ = thread;
  context_ = context;
  while (threads_.size() < size_) threads_.push_back(std::make_unique<Thread>());
  warps_.resize((size_ + kLanes - 1) / kLanes);
  for (unsigned i = 0; i < size_; ++i) {
    threads_[i]->waits_for = nullptr;
    threads_[i]->fiber.begin(&Block::enter, this);
  }
  while (ended_ < size_) {
    bool moved = false;
    unsigned i = 0;
    for (uint3 index{0, 0, 0}; index.z < extent.z; ++index.z) {
      for (index.y = 0; index.y < extent.y; ++index.y) {
        for (index.x = 0; index.x < extent.x; ++index.x, ++i) {
          const Thread& t = *threads_[i];
          if (t.fiber.ended() || (t.waits_for != nullptr && t.waits_for->count == t.since)) continue;
          resume(i, index);
          moved = true;
        }
      }
    }
    if (!moved) {
      misuse(ended_ > 0 ? "some threads of the block ended while others wait in __syncthreads() or a shuffle"
                        : "some threads of the block wait in __syncthreads() while others wait in a shuffle");
    }
  }
}

void Block::resume(unsigned i, uint3 index) {
  current_ = i;
  threadIdx = index;
  threads_[i]->waits_for = nullptr;
  threads_[i]->fiber.resume();
  if (threads_[i]->fiber.ended()) ++ended_;
}

void Block::wait(Meeting& meeting, unsigned members) {
  if (++meeting.arrived == members) {
    meeting.arrived = 0;
    ++meeting.count;
    return;
  }
  Thread& self = *threads_[current_];
  self.waits_for = &meeting;
  self.since = meeting.count;
  self.fiber.yield();
}

void Block::meet() { wait(all_, size_); }

const Block::Values& Block::exchange(const void* value, std::size_t bytes, int bits) {
  Warp& warp = warps_[current_ / kLanes];
  if (size_ % kLanes != 0 && current_ / kLanes == size_ / kLanes) {
    misuse("a shuffle in a warp of less than 32 threads: the block's size is no multiple of 32");
  }
  if (warp.meeting.arrived == 0) {
    warp.bits = bits;
    warp.bytes = bytes;
  } else if (warp.bits != bits || warp.bytes != bytes) {
    misuse("the lanes of a warp do not take part in the same shuffle");
  }
  auto& values = warp.values[warp.meeting.count % 2];
  std::memcpy(values[lane()].data(), value, bytes);
  wait(warp.meeting, kLanes);
  return values;
}

void Block::shuffle(void* value, std::size_t bytes, int bits) {
  if (bits < 0 || bits >= static_cast<int>(kLanes)) misuse("a shuffle with a lane that does not exist");
  const Values& values = exchange(value, bytes, bits);
  std::memcpy(value, values[lane() ^ static_cast<unsigned>(bits)].data(), bytes);
}

void Block::gather(const void* value, std::size_t bytes, void* to) {
  const Values& values = exchange(value, bytes, kGathers);
  for (unsigned i = 0; i < kLanes; ++i)
    std::memcpy(static_cast<std::byte*>(to) + i * bytes, values[i].data(), bytes);
}

}  // namespace

bool fits(dim3 grid, dim3 block) {
  const auto within = [](dim3 extent, unsigned x, unsigned y, unsigned z) {
    return extent.x >= 1 && extent.x <= x && extent.y >= 1 && extent.y <= y && extent.z >= 1 && extent.z <= z;
  };
  return within(grid, 0x7fffffffU, 65535, 65535) && within(block, 1024, 1024, 64) &&
         block.x * block.y * block.z <= 1024;
}

void run_together(dim3 grid, dim3 block, void (*thread)(const void*), const void* context) {
  gridDim = grid;
  blockDim = block;
  t_running = &t_block;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        t_block.run(block, thread, context);
      }
    }
  }
  t_running = nullptr;
}

void meet() {
  if (t_running == nullptr)
    misuse("__syncthreads() in a kernel that was not launched with launch_together()");
  t_running->meet();
}

void shuffle(void* value, std::size_t bytes, int bits) {
  if (t_running == nullptr) misuse("a shuffle in a kernel that was not launched with launch_together()");
  t_running->shuffle(value, bytes, bits);
}

void gather(const void* value, std::size_t bytes, void* to) {
  if (t_running == nullptr)
    misuse("a product of a warp in a kernel that was not launched with launch_together()");
  t_running->gather(value, bytes, to);
}

unsigned lane() { return t_running == nullptr ? 0 : t_running->lane(); }

}  // namespace starling::emulator
