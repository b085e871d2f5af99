// The recurring faults of an experiment, peer by peer: pauses, departures and returns. They are drawn from
// the experiment's seed on demand, so an endless run can have an endless schedule, and real processes get the
// same schedule as virtual machines. Times count from the run's start.
#pragma once

#include <cstdint>
#include <optional>

#include "base/random.h"
#include "base/time.h"
#include "training/runs/experiment/experiment.h"

namespace starling::lab {

// The pauses of one peer by one fault, in order. The first pause of a recurring fault begins at its `from`;
// if the fault concerns several peers, each begins at its own phase of the first period, so that they do not
// all stop at once.
class Pauses {
 public:
  // `fault`: its index in the experiment's list. REQUIRES: it is a pause of this peer.
  Pauses(const training::Experiment& experiment, std::size_t fault, std::uint32_t peer);

  struct Pause {
    Duration from;
    std::optional<Duration> to;
    friend bool operator==(const Pause&, const Pause&) = default;
  };
  // nullopt after the last.
  std::optional<Pause> next();

 private:
  training::Fault fault_;
  std::optional<Duration> at_;  // of the next one
};

// The departures of one peer by one fault, and its returns. A crash or leave happens once. With churn, a live
// peer departs after an exponentially distributed time, and a new instance starts after another such time, or
// never.
class Departures {
 public:
  // As above. REQUIRES: it is a crash, a leave or churn, and does not spare this peer.
  Departures(const training::Experiment& experiment, std::size_t fault, std::uint32_t peer);

  struct Departure {
    Duration at;
    bool crash;                    // otherwise it leaves
    std::optional<Duration> back;  // later than `at`
    friend bool operator==(const Departure&, const Departure&) = default;
  };
  // nullopt after the last.
  std::optional<Departure> next();

 private:
  training::Fault fault_;
  Random random_;
  std::optional<Duration> since_;  // start of the present instance; nullopt: no more departures
};

// If churn would concern every peer, it spares the first that is there from the start, so that the parameters
// survive.
std::optional<std::uint32_t> spared_by_churn(const training::Experiment& experiment);

// Whether the peer starts after the run has begun.
bool joins_late(const training::Experiment& experiment, std::uint32_t peer);
// The number of peers that do not.
std::uint32_t beginning_together(const training::Experiment& experiment);

}  // namespace starling::lab
