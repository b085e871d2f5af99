// Where a peer's workers run. Each worker of a peer that has several gets a processor of its own, which keeps
// the arena's lines in that processor's caches, and all run at a lower priority than the thread that keeps
// the protocol, so that heartbeats never wait for arithmetic.
//
// The rule: a peer pins all of its workers or none. It pins them where there are at least two, and as many
// processors that it may use (sched_getaffinity, so taskset and cpusets count) and that no other peer of this
// machine has taken. Else the kernel chooses, as it does for a lone worker, which it moves about well enough:
// eight peers of one worker on two processors must not be nailed down, and neither must a second peer that
// finds them taken.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace starling::node {

// A processor that is this process's own among peers, until the value goes. Taking one binds a name in the
// abstract Unix namespace: only one process at a time can, and however it ends, the kernel frees the name.
// Peers in containers with networks of their own do not see each other's names; such containers should have
// cpusets of their own, too.
class Processor {
 public:
  // Its file descriptor, which it closes.
  Processor(int number, int fd) : number_(number), fd_(fd) {}
  Processor(Processor&& other) noexcept;
  Processor& operator=(Processor&&) = delete;
  ~Processor();
  int number() const { return number_; }

 private:
  int number_, fd_;
};

// Takes so many of those that the calling thread may use, in the order of by_preference(); none where not
// that many are free. Peers that call them by another `name` do not count.
std::vector<Processor> take_processors(std::size_t count, const std::string& name = "starling");

// A processor's number, and that of its core: two hardware threads of one core share its arithmetic.
struct Place {
  int processor = 0;
  int core = 0;
};
// In what order they are taken: a whole core for each worker before any gets a second one, and the one where
// the caller runs last of its round, which is the protocol's.
std::vector<int> by_preference(const std::vector<Place>& places, int here);

// Threads that the calling thread starts while this lives never interrupt another that is at work
// (SCHED_BATCH): for a library's threads that spin, where the one they spin for shares their processor. Where
// the kernel refuses that, they are as others are.
class StartsBatchThreads {
 public:
  StartsBatchThreads();
  ~StartsBatchThreads();
  StartsBatchThreads(const StartsBatchThreads&) = delete;
  StartsBatchThreads& operator=(const StartsBatchThreads&) = delete;

 private:
  int before_;  // its own policy
};

// Both are about the calling thread.
Status pin_to(int processor);
Status lower_priority();
// Added to the thread's nice value. Where both want all of a processor, such a thread gets a third of what
// another gets: enough to be out of the way of what is short, and not so little that another program stops
// the training.
inline constexpr int kWorkerNiceness = 5;

}  // namespace starling::node
