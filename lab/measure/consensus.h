// Measures consensus without training: how fast the random vectors of peers converge to their mean, in
// lock-step rounds x <- W x, and by the core's own asynchronous pairwise exchanges in a virtual world. It
// checks the predictions of topologies/spectra/analysis.h, so it uses none of them: a peer knows only its own
// links.
//
// The disagreement is V = sum |x_i - mean|^2 over the peers, relative to the initial V.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "gossip/events.h"
#include "topologies/spectra/mixing.h"
#include "topologies/topology.h"

namespace starling::lab {

struct LockStepSpread {
  std::vector<double> v;         // after r rounds, v[0] = 1; until rounding matters, or kRoundsMax
  std::optional<double> factor;  // of V per round, in the long run; 0 if the average is exact after a period;
                                 // none if V has not settled within kRoundsMax
  std::optional<std::uint64_t> exact_after;  // the first round of the first period after which every peer has
                                             // the initial mean, to rounding
  double period_error = 0;  // sqrt(sum |x_i - initial mean|^2) after a period, relative to the start
};

inline constexpr std::uint64_t kRoundsMax = 100'000;

// Without `mixing`: the schedule's default. For push-sum, x is the quotient. An Error if the topology has no
// such mixing.
Result<LockStepSpread> measure_lock_step(const topologies::Schedule& schedule,
                                         std::optional<topologies::Mixing> mixing, std::uint64_t seed);

struct PairwiseOptions {
  std::uint64_t seed = 1;
  // Worlds with different seeds. 0: as many as the measurement needs.
  std::uint64_t seeds = 0;
  unsigned threads = 0;  // 0: all cores; does not change results
  // The predictions assume uniform draws.
  Partners partners = Partners::uniform;
  // Called after every seed with the fraction done.
  std::function<void(double done)> progress;
  // Called between seeds: true ends the measurement, which then has no factor.
  std::function<bool()> interrupted;
};

struct PairwiseSpread {
  std::uint64_t seeds = 0;               // worlds that were run
  std::vector<std::uint64_t> exchanges;  // completed by the whole swarm, from 0 on
  std::vector<double> v;                 // at these exchanges, the mean over seeds
  std::optional<double> factor;  // of the mean of V per exchange, in the long run; none if it is too slow
  double rate_error = 0;         // relative standard error of ln factor, from the spread of the seeds
};

// By how many percent a measured rate (the logarithm of a factor) exceeds the predicted one; none if a rate
// is missing, as with exact averages.
std::optional<double> deviation_percent(std::optional<double> measured, std::optional<double> predicted);

// The V, relative to the start, at which the measurement of pairwise gossip ends.
double pairwise_floor(std::uint32_t peers);

// Exchanges by the gossip core with Poisson clocks of equal rates, the arithmetic of training/mixing, and
// latency a thousandth of the interval. REQUIRES: peers >= 2.
PairwiseSpread measure_pairwise(const topologies::Topology& topology, std::uint32_t peers,
                                const PairwiseOptions& options);

}  // namespace starling::lab
