// Ctrl-C for a program that has children: the first asks for an orderly end, the second kills the children
// and exits with 130 at once, whatever the program is doing. SIGTERM and SIGHUP count as Ctrl-C.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

namespace starling::lab {

class Interrupts {
 public:
  // From here to the destructor these signals reach this object alone. REQUIRES: threads that are to be
  // spared the signals are started later; one object at a time.
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool requested() const { return count_.load() > 0; }
  int fd() const { return requested_; }  // readable from the first one on

  // The processes that the second one kills.
  void add(pid_t pid);
  void remove(pid_t pid);

 private:
  void watch();

  sigset_t former_mask_;
  int signals_, requested_, stop_;
  std::atomic<int> count_ = 0;
  std::mutex mutex_;
  std::set<pid_t> children_;
  std::thread thread_;
};

}  // namespace starling::lab
