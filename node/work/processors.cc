#include "node/work/processors.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <tuple>
#include <utility>

namespace starling::node {
namespace {

// The lowest number among the hardware threads of its core, the first in the kernel's list ("0,4", "0-1");
// its own number if the kernel has no list.
int core_of(int processor) {
  std::ifstream list("/sys/devices/system/cpu/cpu" + std::to_string(processor) +
                     "/topology/thread_siblings_list");
  int core = processor;
  if (!(list >> core)) return processor;
  return core;
}

std::vector<Place> usable() {
  std::vector<Place> places;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return places;
  for (int p = 0; p < CPU_SETSIZE; ++p) {
    if (CPU_ISSET(p, &set)) places.push_back({p, core_of(p)});
  }
  return places;
}

// The descriptor that holds the processor's name; -1 if another process has it.
int take(int processor, const std::string& name) {
  const std::string text = name + "-processor-" + std::to_string(processor);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (text.size() + 1 > sizeof address.sun_path) return -1;
  std::memcpy(address.sun_path + 1, text.data(), text.size());  // the leading zero makes it an abstract name
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || ::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

Processor::Processor(Processor&& other) noexcept
    : number_(other.number_), fd_(std::exchange(other.fd_, -1)) {}

Processor::~Processor() {
  if (fd_ >= 0) ::close(fd_);
}

std::vector<Processor> take_processors(std::size_t count, const std::string& name) {
  std::vector<Processor> taken;
  for (const int processor : by_preference(usable(), ::sched_getcpu())) {
    if (taken.size() == count) break;
    if (const int fd = take(processor, name); fd >= 0) taken.emplace_back(processor, fd);
  }
  if (taken.size() < count) taken.clear();
  return taken;
}

std::vector<int> by_preference(const std::vector<Place>& places, int here) {
  std::map<int, int> seen;                           // hardware threads of each core so far
  std::vector<std::tuple<int, bool, int>> standing;  // the round; not after `here`; the number
  for (const Place& place : places) {
    standing.emplace_back(seen[place.core]++, place.processor <= here, place.processor);
  }
  std::sort(standing.begin(), standing.end());
  std::vector<int> order;
  for (const auto& [round, wrapped, processor] : standing) order.push_back(processor);
  return order;
}

StartsBatchThreads::StartsBatchThreads() : before_(::sched_getscheduler(0)) {
  const sched_param none{};
  if (before_ == SCHED_OTHER && ::sched_setscheduler(0, SCHED_BATCH, &none) != 0) before_ = -1;
}

StartsBatchThreads::~StartsBatchThreads() {
  const sched_param none{};
  if (before_ == SCHED_OTHER) ::sched_setscheduler(0, SCHED_OTHER, &none);
}

Status pin_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (::sched_setaffinity(0, sizeof set, &set) == 0) return Done{};
  return Error{"a worker cannot be bound to processor " + std::to_string(processor) + ": " +
               std::strerror(errno)};
}

Status lower_priority() {
  // On Linux this sets one thread's value; the kernel clamps it.
  const auto thread = static_cast<id_t>(::gettid());
  if (::setpriority(PRIO_PROCESS, thread, ::getpriority(PRIO_PROCESS, thread) + kWorkerNiceness) == 0)
    return Done{};
  return Error{std::string("a worker's priority cannot be lowered: ") + std::strerror(errno)};
}

void name_thread(const std::string& name) { ::pthread_setname_np(::pthread_self(), name.c_str()); }

}  // namespace starling::node
