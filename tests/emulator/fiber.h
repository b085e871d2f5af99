// A stack of its own, on which a thread of the processor does something else for a while: so one thread can
// be all threads of a block. A fiber stays with the thread that made it.
#pragma once

#include <cstddef>

namespace starling::emulator {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() begins with `entry(argument)`. REQUIRES: ended().
  void begin(void (*entry)(void*), void* argument);
  bool ended() const { return ended_; }

  // Goes on with it until it yields or its entry returns. REQUIRES: !ended().
  void resume();
  // Back to resume(). REQUIRES: called on this fiber.
  void yield();

 private:
  static void run(Fiber* self);

  bool ended_ = true;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;

  void* mapping_;          // a page that nobody may touch, then the stack
  void *here_, *resumer_;  // where each side goes on: a stack pointer, or a ucontext_t
  // What the sanitizers keep of each side.
  void* fake_here_ = nullptr;
  void* fake_resumer_ = nullptr;
  const void* resumer_bottom_ = nullptr;
  std::size_t resumer_size_ = 0;
  void* thread_here_ = nullptr;
  void* thread_resumer_ = nullptr;
};

}  // namespace starling::emulator
