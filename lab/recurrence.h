// What an experiment has recur, peer by peer: pauses, and goings and comings. It is drawn from the
// experiment's seed as time goes on, so that an endless run may have an endless schedule, and real processes
// meet the same one as virtual machines. Times count from the run's start.
#pragma once

#include <cstdint>
#include <optional>

#include "base/random.h"
#include "base/time.h"
#include "training/experiment/experiment.h"

namespace starling::lab {

// The pauses that one fault gives one peer, each later than the one before. Of a fault that recurs the first
// one begins at its `from`; where it concerns several peers, for each of them at a phase of its own of the
// first period, so that they do not all stop at once.
class Pauses {
 public:
  // REQUIRES: the fault is the experiment's, at this place of its list; a pause, of this peer.
  Pauses(const training::Experiment& experiment, std::size_t fault, std::uint32_t peer);

  struct Pause {
    Duration from;
    std::optional<Duration> to;
    friend bool operator==(const Pause&, const Pause&) = default;
  };
  // The next one; nullopt after the last.
  std::optional<Pause> next();

 private:
  training::Fault fault_;
  std::optional<Duration> at_;  // of the next one
};

// When one fault has one peer go, and a new instance of it come. A crash or leave happens once; churn takes a
// live peer at random moments, after times that are exponentially distributed, and lets it come back after
// another such time, or never.
class Departures {
 public:
  // REQUIRES: as above; a crash, a leave or churn, which does not spare this peer.
  Departures(const training::Experiment& experiment, std::size_t fault, std::uint32_t peer);

  struct Departure {
    Duration at;
    bool crash;                    // else it leaves
    std::optional<Duration> back;  // later than `at`
    friend bool operator==(const Departure&, const Departure&) = default;
  };
  // The next one; nullopt after the last.
  std::optional<Departure> next();

 private:
  training::Fault fault_;
  Random random_;
  std::optional<Duration> since_;  // it is there since then; nullopt: it goes no more
};

// The peer that all churn spares, so that the run's parameters survive: the first that is there from the
// start, where the experiment's churn would else concern every peer.
std::optional<std::uint32_t> spared_by_churn(const training::Experiment& experiment);

// Whether the peer is not there from the start.
bool joins_late(const training::Experiment& experiment, std::uint32_t peer);

}  // namespace starling::lab
