// The faults of an experiment that the launcher inflicts on real processes, in the order in which they are
// due. Slow peers are not here: a peer slows itself down.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/faults.h"
#include "training/experiment.h"

namespace starling::lab {

struct ProcessFault {
  enum class Act : std::uint8_t {
    start,   // of a peer that joins late
    pause,   // SIGSTOP
    resume,  // SIGCONT
    crash,   // SIGKILL
    leave,   // SIGTERM
    links,   // its links have become others: link_at()
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

// REQUIRES: check_for_processes() is content.
std::vector<ProcessFault> process_faults(const training::Experiment& experiment);

// What `from`'s way to `to` is like at a time of the run: `[network]` where no fault of the two says
// otherwise, and the worse of several faults, as in lab/virtual_network.h.
LinkShape link_at(const training::Experiment& experiment, std::uint32_t from, std::uint32_t to, Duration at);

// Whether the peer is not there from the start.
bool joins_late(const training::Experiment& experiment, std::uint32_t peer);

// The greatest factor (the median, where chance has it) by which the peer is slowed at any time; 1 where it
// never is.
double slowness(const training::Experiment& experiment, std::uint32_t peer);

}  // namespace starling::lab
