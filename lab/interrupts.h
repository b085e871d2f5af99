// Ctrl-C for a program with child processes: the first requests an orderly end; another one at least a second
// later kills the children and exits with 130 immediately. SIGTERM and SIGHUP request an orderly end, too.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace starling::lab {

class Interrupts {
 public:
  // Until the destructor, only this object receives these signals, and after a request nobody does. REQUIRES:
  // threads that must not receive them are started later; one object at a time.
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool requested() const { return is_requested_.load(); }
  int fd() const { return requested_; }  // readable after the first

  // The processes that the second Ctrl-C kills.
  void add(pid_t pid);
  void remove(pid_t pid);

 private:
  void watch();

  sigset_t former_mask_;
  int signals_, requested_, stop_;
  std::atomic<bool> is_requested_ = false;
  std::optional<std::chrono::steady_clock::time_point> requested_at_;
  std::mutex mutex_;
  std::set<pid_t> children_;
  std::thread thread_;
};

}  // namespace starling::lab
