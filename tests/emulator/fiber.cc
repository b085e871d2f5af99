#include "tests/emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "base/check.h"

#ifndef __x86_64__
#include <ucontext.h>
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace starling::emulator {

namespace {

constexpr std::size_t kPage = 4096;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStack = 64 * kPage;  // their frames are larger
#else
constexpr std::size_t kStack = 16 * kPage;
#endif

}  // namespace

#ifdef __x86_64__

// Pushes the callee-saved registers, swaps the stacks, and pops them on the other stack: no system call,
// unlike swapcontext(), which saves the signal mask.
extern "C" void starling_emulator_switch(void** from, void* to);
asm(R"(
.text
.p2align 4
.hidden starling_emulator_switch
.globl starling_emulator_switch
.type starling_emulator_switch, @function
starling_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size starling_emulator_switch, .-starling_emulator_switch
.hidden starling_emulator_first
.globl starling_emulator_first
.type starling_emulator_first, @function
starling_emulator_first:
  movq %r12, %rdi
  callq *%r13
  ud2
.size starling_emulator_first, .-starling_emulator_first
)");
extern "C" void starling_emulator_first();

namespace {

void change(void** from, void* to) { starling_emulator_switch(from, to); }

// Sets up the stack as if starling_emulator_switch() had saved `self` and `run` in the registers that
// _first() reads.
void* first_stack(char* top, void (*run)(Fiber*), Fiber* self) {
  auto** sp = reinterpret_cast<void**>(top) - 9;  // gives _first() a stack aligned to 16 bytes
  sp[0] = nullptr;                                // r15
  sp[1] = nullptr;                                // r14
  sp[2] = reinterpret_cast<void*>(run);           // r13
  sp[3] = self;                                   // r12
  sp[4] = nullptr;                                // rbx
  sp[5] = nullptr;                                // rbp
  sp[6] = reinterpret_cast<void*>(&starling_emulator_first);
  sp[7] = sp[8] = nullptr;
  return sp;
}

void end_stack(void*) {}
void* resumer_stack() { return nullptr; }

}  // namespace

#else

namespace {

void change(void** from, void* to) {
  swapcontext(static_cast<ucontext_t*>(*from), static_cast<ucontext_t*>(to));
}

// makecontext() passes only ints.
void split_run(unsigned run_high, unsigned run_low, unsigned self_high, unsigned self_low) {
  const auto join = [](unsigned high, unsigned low) {
    return static_cast<std::uintptr_t>((static_cast<std::uint64_t>(high) << 32) | low);
  };
  reinterpret_cast<void (*)(Fiber*)>(join(run_high, run_low))(
      reinterpret_cast<Fiber*>(join(self_high, self_low)));
}

void* first_stack(char* top, void (*run)(Fiber*), Fiber* self) {
  auto* context = new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = top - kStack;
  context->uc_stack.ss_size = kStack;
  context->uc_link = nullptr;
  const auto high = [](auto p) {
    return static_cast<unsigned>(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(p)) >> 32);
  };
  const auto low = [](auto p) { return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(p)); };
  makecontext(context, reinterpret_cast<void (*)()>(split_run), 4, high(run), low(run), high(self),
              low(self));
  return context;
}

void end_stack(void* stack) { delete static_cast<ucontext_t*>(stack); }
void* resumer_stack() { return new ucontext_t; }

}  // namespace

#endif

Fiber::Fiber() : resumer_(resumer_stack()) {
  mapping_ = mmap(nullptr, kPage + kStack, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  STARLING_CHECK(mprotect(mapping_, kPage, PROT_NONE) == 0);
  here_ = first_stack(static_cast<char*>(mapping_) + kPage + kStack, &Fiber::run, this);
#ifdef __SANITIZE_THREAD__
  thread_here_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef __SANITIZE_THREAD__
  __tsan_destroy_fiber(thread_here_);
#endif
  end_stack(here_);
  end_stack(resumer_);
  munmap(mapping_, kPage + kStack);
}

void Fiber::begin(void (*entry)(void*), void* argument) {
  STARLING_CHECK(ended_);
  entry_ = entry;
  argument_ = argument;
  ended_ = false;
}

void Fiber::resume() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_resumer_, static_cast<char*>(mapping_) + kPage, kStack);
#endif
#ifdef __SANITIZE_THREAD__
  thread_resumer_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(thread_here_, 0);
#endif
  change(&resumer_, here_);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_resumer_, nullptr, nullptr);
#endif
}

void Fiber::yield() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_here_, resumer_bottom_, resumer_size_);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(thread_resumer_, 0);
#endif
  change(&here_, resumer_);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_here_, &resumer_bottom_, &resumer_size_);
#endif
}

// Never returns: waits for the next entry after the last one has ended.
void Fiber::run(Fiber* self) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &self->resumer_bottom_, &self->resumer_size_);
#endif
  while (true) {
    self->entry_(self->argument_);
    self->ended_ = true;
    self->yield();
  }
}

}  // namespace starling::emulator
