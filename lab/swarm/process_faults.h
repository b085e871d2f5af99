// The faults of an experiment that the launcher inflicts on real processes, in the order in which they are
// due. Slow peers are not here: a peer slows itself down.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "training/experiment/experiment.h"

namespace starling::lab {

struct ProcessFault {
  enum class Act : std::uint8_t {
    start,   // of a peer that joins late
    pause,   // SIGSTOP
    resume,  // SIGCONT
    crash,   // SIGKILL
    leave,   // SIGTERM
    back,    // a new process of a peer that has gone, or is going
    links,   // links have become others: link_at()
  };
  Duration at{0};  // from the run's start
  std::uint32_t peer = 0;
  Act act = Act::pause;
  friend bool operator==(const ProcessFault&, const ProcessFault&) = default;
};

// Refuses what only virtual peers can have, in a sentence: the fault poison, and links of another kind where
// these are not the program's own, with all-reduce.
Status check_for_processes(const training::Experiment& experiment);

// A sentence on what the experiment sets and processes of one machine do not have, or nothing.
std::string warning_for_processes(const training::Experiment& experiment);

// The faults of an experiment, drawn as time goes on (lab/recurrence.h).
class ProcessFaults {
 public:
  // REQUIRES: check_for_processes() is content. The experiment outlives this.
  explicit ProcessFaults(const training::Experiment& experiment);

  std::optional<Duration> next() const;  // when the next one is due; nullopt after the last
  // The next one, where it is due at this time of the run.
  std::optional<ProcessFault> take(Duration now);
  // Whether one that is paused will be resumed.
  bool resumes() const;
  // Whether a process will be started.
  bool brings() const;

 private:
  using Act = ProcessFault::Act;
  // What befalls a peer at first, and then: a pause and its end, a crash and the return. The next such pair
  // is drawn when the first of this one is taken.
  struct Pair {
    ProcessFault first;
    std::optional<ProcessFault> then{};
  };
  using Source = std::function<std::optional<Pair>()>;
  struct Entry {
    ProcessFault fault;
    std::uint64_t number;               // in the order in which they were drawn
    std::optional<std::size_t> source;  // to draw from when it is taken
    bool operator<(const Entry& other) const {
      return fault.at != other.fault.at ? fault.at < other.fault.at : number < other.number;
    }
  };

  void draw(std::size_t source);
  void add(const ProcessFault& fault, std::optional<std::size_t> source = {});

  std::vector<Source> sources_;
  std::set<Entry> ahead_;
  std::uint64_t numbers_ = 0;
};

}  // namespace starling::lab
