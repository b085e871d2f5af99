#include "lab/interrupts.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "base/check.h"
#include "training/runs/experiment/control.h"

namespace starling::lab {
namespace {

constexpr int kExitInterrupted = 130;

void raise_event(int fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
}

}  // namespace

Interrupts::Interrupts() {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&mask, number);
  pthread_sigmask(SIG_BLOCK, &mask, &former_mask_);
  signals_ = signalfd(-1, &mask, SFD_CLOEXEC);
  requested_ = eventfd(0, EFD_CLOEXEC);
  stop_ = eventfd(0, EFD_CLOEXEC);
  STARLING_CHECK(signals_ >= 0 && requested_ >= 0 && stop_ >= 0);
  thread_ = std::thread([this] { watch(); });
}

Interrupts::~Interrupts() {
  raise_event(stop_);
  thread_.join();
  for (const int fd : {signals_, requested_, stop_}) close(fd);
  // After a request the program ends: another signal must not cut its last words short.
  if (!is_requested_) pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
}

void Interrupts::add(pid_t pid) {
  const std::lock_guard lock(mutex_);
  children_.insert(pid);
}

void Interrupts::remove(pid_t pid) {
  const std::lock_guard lock(mutex_);
  children_.erase(pid);
}

void Interrupts::watch() {
  std::array<pollfd, 2> waiting = {pollfd{signals_, POLLIN, 0}, pollfd{stop_, POLLIN, 0}};
  while (true) {
    if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
    if (waiting[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof info) != sizeof info) continue;
    const auto now = std::chrono::steady_clock::now();
    if (!requested_at_) {
      requested_at_ = now;
      is_requested_ = true;
      raise_event(requested_);
    }
    if (info.ssi_signo != SIGINT || now - *requested_at_ < training::kSameWish) continue;
    const std::lock_guard lock(mutex_);
    for (const pid_t pid : children_) kill(pid, SIGKILL);
    _exit(kExitInterrupted);
  }
}

}  // namespace starling::lab
