// The faults of an experiment that the launcher inflicts on real processes, in the order in which they are
// due. Slow peers are not among them: a peer slows itself down.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "training/runs/experiment/experiment.h"

namespace starling::lab {

struct ProcessFault {
  enum class Act : std::uint8_t {
    start,   // a peer that joins late
    pause,   // SIGSTOP
    resume,  // SIGCONT
    crash,   // SIGKILL
    leave,   // SIGTERM
    back,    // a new process of a peer that has departed or is departing
    links,   // the properties of links change: link_at()
  };
  Duration at{0};  // from the run's start
  std::uint32_t peer = 0;
  Act act = Act::pause;
  friend bool operator==(const ProcessFault&, const ProcessFault&) = default;
};

// An Error if only virtual peers can have a fault or setting: poison, and shaped links with all-reduce, whose
// links are not the program's own.
Status check_for_processes(const training::Experiment& experiment);

// A warning about settings that have no effect on processes of one machine; empty if there are none.
std::string warning_for_processes(const training::Experiment& experiment);

// The faults of an experiment, drawn on demand (lab/recurrence.h).
class ProcessFaults {
 public:
  // REQUIRES: check_for_processes() accepts the experiment, which outlives this.
  explicit ProcessFaults(const training::Experiment& experiment);

  std::optional<Duration> next() const;  // time of the next one; nullopt after the last
  // The next one, if it is due at this time of the run.
  std::optional<ProcessFault> take(Duration now);
  // Whether a resume is ahead.
  bool resumes() const;
  // Whether a start or a return is ahead.
  bool brings() const;

 private:
  using Act = ProcessFault::Act;
  // A pause and its end, or a departure and the return. The next pair is drawn when the first of this one is
  // taken.
  struct Pair {
    ProcessFault first;
    std::optional<ProcessFault> then{};
  };
  using Source = std::function<std::optional<Pair>()>;
  struct Entry {
    ProcessFault fault;
    std::uint64_t number;               // order in which they were drawn
    std::optional<std::size_t> source;  // draws the next pair when this one is taken
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
