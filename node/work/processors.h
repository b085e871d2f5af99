// Where a peer's workers run. If a peer has several workers, each gets its own processor, which keeps the
// arena's lines in that processor's caches. All workers run at a lower priority than the thread of the
// protocol, so that heartbeats never wait for arithmetic.
//
// The rule: a peer pins all of its workers or none, each thread of a worker in stages to a processor of its
// own. It pins them if there are at least two threads, and as many processors that it may use
// (sched_getaffinity, so taskset and cpusets count) and that no other peer on this machine has taken.
// Otherwise the kernel chooses, as it does for a single worker: eight peers with one worker on two processors
// must not be pinned, and neither must a second peer that finds the processors taken.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace starling::node {

// A processor that belongs to this process among all peers, until the value is destroyed. Taking one binds a
// name in the abstract Unix namespace: only one process at a time can do so, and the kernel frees the name
// however the process ends. Peers in containers with separate networks do not share these names; such
// containers should have separate cpusets too.
class Processor {
 public:
  // Owns the file descriptor.
  Processor(int number, int fd) : number_(number), fd_(fd) {}
  Processor(Processor&& other) noexcept;
  Processor& operator=(Processor&&) = delete;
  ~Processor();
  int number() const { return number_; }

 private:
  int number_, fd_;
};

// Takes `count` of the processors that the calling thread may use, in the order of by_preference(); none if
// fewer are free. Peers with another `name` do not count.
std::vector<Processor> take_processors(std::size_t count, const std::string& name = "starling");

// A processor's number and its core's: the hardware threads of one core share its arithmetic.
struct Place {
  int processor = 0;
  int core = 0;
};
// The order in which processors are taken: one of each core before a second one of any core. Within a round
// the processor where the caller runs comes last, as the protocol needs it.
std::vector<int> by_preference(const std::vector<Place>& places, int here);

// Threads that the calling thread starts while this lives never preempt another thread (SCHED_BATCH): for a
// library's threads that spin while the thread that they wait for shares their processor. Without effect if
// the kernel refuses.
class StartsBatchThreads {
 public:
  StartsBatchThreads();
  ~StartsBatchThreads();
  StartsBatchThreads(const StartsBatchThreads&) = delete;
  StartsBatchThreads& operator=(const StartsBatchThreads&) = delete;

 private:
  int before_;  // the calling thread's policy
};

// These change the calling thread.
Status pin_to(int processor);
Status lower_priority();
// The name in the lists of ps, top and debuggers, at most 15 characters.
void name_thread(const std::string& name);
// Added to the thread's nice value. Competing for a processor, such a thread gets a third of what another
// thread gets: little enough to let short work pass, and enough that another busy program does not stop the
// training.
inline constexpr int kWorkerNiceness = 5;

}  // namespace starling::node
