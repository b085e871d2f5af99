// A separate stack on which a CPU thread can run something else for a while, so that one thread can act as
// all threads of a block. A fiber stays with the thread that created it.
#pragma once

#include <cstddef>

namespace starling::emulator {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() starts `entry(argument)`. REQUIRES: ended().
  void begin(void (*entry)(void*), void* argument);
  bool ended() const { return ended_; }

  // Continues it until it yields or its entry returns. REQUIRES: !ended().
  void resume();
  // Back to resume(). REQUIRES: called on this fiber.
  void yield();

 private:
  static void run(Fiber* self);

  bool ended_ = true;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;

  void* mapping_;          // a guard page, then the stack
  void *here_, *resumer_;  // where each side continues: a stack pointer or a ucontext_t
  // The sanitizers' state of each side.
  void* fake_here_ = nullptr;
  void* fake_resumer_ = nullptr;
  const void* resumer_bottom_ = nullptr;
  std::size_t resumer_size_ = 0;
  void* thread_here_ = nullptr;
  void* thread_resumer_ = nullptr;
};

}  // namespace starling::emulator
