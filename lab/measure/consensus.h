// Consensus without learning, measured: how fast peers that hold random vectors come to hold their mean. Once
// in lock-step rounds x <- W x, once by the product's own asynchronous pairwise exchanges in a virtual world.
// What topologies/analysis.h predicts from eigenvalues is to be seen here in the numbers themselves, so
// nothing of it is used: a peer works with its own links alone.
//
// The disagreement is V = sum |x_i - mean|^2 over the peers, told relative to V at the start.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "gossip/events.h"
#include "topologies/mixing.h"
#include "topologies/topology.h"

namespace starling::lab {

struct LockStep {
  std::vector<double> v;         // after r rounds, v[0] = 1; until rounding could be seen, or kRoundsMax
  std::optional<double> factor;  // of V per round, in the long run; 0 where the average is exact after a
                                 // period; none where it has not settled within kRoundsMax
  std::optional<std::uint64_t> exact_after;  // the first round of the first period after which every peer
                                             // holds the mean of the start, to rounding
  double period_error = 0;  // sqrt(sum |x_i - mean of the start|^2), after a period, relative to the start
};

inline constexpr std::uint64_t kRoundsMax = 100'000;

// `mixing` without a value: the schedule's default; of push-sum x is the quotient that peers read. An Error
// where the topology has no such mixing.
Result<LockStep> measure_lock_step(const topologies::Schedule& schedule,
                                   std::optional<topologies::Mixing> mixing, std::uint64_t seed);

struct PairwiseOptions {
  std::uint64_t seed = 1;
  // Starts from fresh vectors, each in a world of a seed of its own. 0: as many as the measurement needs.
  std::uint64_t seeds = 0;
  unsigned threads = 0;  // 0: all cores; never changes a result
  // What is predicted are draws at random (uniform).
  gossip::Partners partners = gossip::Partners::uniform;
  // Told after every seed: the share that is done.
  std::function<void(double done)> progress;
  // Asked between seeds: true ends the measurement, which then has no factor.
  std::function<bool()> interrupted;
};

struct Pairwise {
  std::uint64_t seeds = 0;               // that were run
  std::vector<std::uint64_t> exchanges;  // completed by the whole swarm, from 0 on
  std::vector<double> v;                 // after so many, the mean over seeds
  std::optional<double> factor;  // of the mean of V, per exchange, in the long run; none where it is too slow
  double rate_error = 0;         // standard error of ln factor, relative to it, by the spread of the seeds
};

// By how much a measured rate, the logarithm of a factor, is above the predicted one; none where there is no
// rate to compare, of exact averages for one.
std::optional<double> deviation_percent(std::optional<double> measured, std::optional<double> predicted);

// Down to which V, relative to the start, pairwise gossip is followed.
double pairwise_floor(std::uint32_t peers);

// Exchanges by the gossip core with Poisson clocks of equal rates, the arithmetic of training/exchange, and
// latency a thousandth of the interval. REQUIRES: peers >= 2.
Pairwise measure_pairwise(const topologies::Topology& topology, std::uint32_t peers,
                          const PairwiseOptions& options);

}  // namespace starling::lab
