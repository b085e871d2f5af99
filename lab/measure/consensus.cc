#include "lab/measure/consensus.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "lab/thread_pool.h"
#include "lab/world/world.h"

namespace starling::lab {
namespace {

using topologies::Mixing;
using topologies::Schedule;

// ---- lock-step ----

constexpr std::size_t kFloats = 16;        // of a peer's vector: enough directions to include all modes
constexpr std::uint64_t kRoundsKept = 64;  // periods up to this are computed once
// The window of the fit: faster modes have decayed (1e-5 of the initial disagreement is left), and rounding,
// at 1e-16, does not matter yet.
constexpr double kFitBegin = 1e-10, kFitEnd = 1e-22;
constexpr double kExact = 1e-12;

// A round: a peer keeps a share of its vector, and a share moves along each link.
struct Round {
  std::vector<double> kept;              // [n]
  std::vector<topologies::Links> links;  // [n], weight: the share
};

double strength(const topologies::Links& links, topologies::Weights kind) {
  double sum = 0;
  for (const auto& link : links) sum += kind == topologies::Weights::relative ? link.weight : 1;
  return sum;
}

// Built from each peer's own links. A link's weight depends on the strengths of both ends.
Round round_of(const Schedule& schedule, Mixing mixing, std::uint64_t number) {
  const std::uint32_t n = schedule.peers();
  Round round{std::vector<double>(n, 1), std::vector<topologies::Links>(n)};
  std::vector<double> strengths(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    round.links[i] = schedule.links(i, number);
    strengths[i] = strength(round.links[i], schedule.weights());
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    for (auto& link : round.links[i]) {
      const double a = schedule.weights() == topologies::Weights::relative ? link.weight : 1;
      const double larger = std::max(strengths[i], strengths[link.peer]);
      if (mixing == Mixing::metropolis) link.weight = a / (1 + larger);
      if (mixing == Mixing::lazy) link.weight = a / (2 + 2 * larger);
      if (mixing == Mixing::uniform || mixing == Mixing::push_sum) link.weight = a / (1 + strengths[i]);
      round.kept[i] -= link.weight;
    }
  }
  return round;
}

// n vectors in one array, and the weights of push-sum.
class Replicas {
 public:
  Replicas(std::uint32_t n, Mixing mixing, std::uint64_t seed)
      : n_(n), mixing_(mixing), x_(n * kFloats), next_(n * kFloats), u_(n, 1), mean_(kFloats) {
    Random random = Random(seed).split(0x10c5);
    for (double& x : x_) x = random.normal();
    for (std::size_t f = 0; f < kFloats; ++f) mean_[f] = mean(f);
  }

  void go(const Round& round) {
    std::vector<double> u(n_);
    for (std::uint32_t i = 0; i < n_; ++i) {
      u[i] = round.kept[i] * u_[i];
      for (std::size_t f = 0; f < kFloats; ++f) next_[i * kFloats + f] = round.kept[i] * x_[i * kFloats + f];
    }
    for (std::uint32_t i = 0; i < n_; ++i) {
      for (const auto& link : round.links[i]) {
        // Uniform mixing takes the mean over the peers that a peer links to; others push along the link.
        const bool takes = mixing_ == Mixing::uniform;
        const std::uint32_t from = takes ? link.peer : i, to = takes ? i : link.peer;
        u[to] += link.weight * u_[from];
        for (std::size_t f = 0; f < kFloats; ++f)
          next_[to * kFloats + f] += link.weight * x_[from * kFloats + f];
      }
    }
    x_.swap(next_);
    if (mixing_ == Mixing::push_sum) u_.swap(u);
  }

  // sum |x_i - mean|^2, with the current mean.
  double disagreement() const {
    std::vector<double> now(kFloats);
    for (std::size_t f = 0; f < kFloats; ++f) now[f] = mean(f);
    return distance(now);
  }
  // The same, with the initial mean.
  double error() const { return distance(mean_); }

 private:
  double value(std::uint32_t i, std::size_t f) const { return x_[i * kFloats + f] / u_[i]; }
  double mean(std::size_t f) const {
    double sum = 0;
    for (std::uint32_t i = 0; i < n_; ++i) sum += value(i, f);
    return sum / n_;
  }
  double distance(std::span<const double> from) const {
    double sum = 0;
    for (std::uint32_t i = 0; i < n_; ++i)
      for (std::size_t f = 0; f < kFloats; ++f) sum += (value(i, f) - from[f]) * (value(i, f) - from[f]);
    return sum;
  }

  std::uint32_t n_;
  Mixing mixing_;
  std::vector<double> x_, next_;  // [n, kFloats]
  std::vector<double> u_;         // [n]; all 1 except with push-sum
  std::vector<double> mean_;      // initial
};

// The slope of ln v over the window by least squares, with one round of each period: within a period V may
// fall in steps.
std::optional<double> long_run_factor(const std::vector<double>& v, std::uint64_t period) {
  std::size_t begin = 0;
  while (begin < v.size() && v[begin] > kFitBegin) ++begin;
  if (begin + period >= v.size()) begin = v.size() > 2 * period ? v.size() - 1 - 2 * period : 0;
  double n = 0, t = 0, y = 0, tt = 0, ty = 0;
  for (std::size_t r = begin; r < v.size() && v[r] > 0; r += period) {
    const auto at = static_cast<double>(r - begin);
    n += 1, t += at, y += std::log(v[r]), tt += at * at, ty += at * std::log(v[r]);
  }
  if (n < 2) return std::nullopt;
  return std::exp((n * ty - t * y) / (n * tt - t * t));
}

// ---- asynchronous pairwise gossip ----

constexpr std::size_t kArenaFloats = 16;
constexpr Duration kInterval = std::chrono::milliseconds(10);  // mean, between a peer's exchanges
constexpr Duration kLatency = std::chrono::microseconds(5);
constexpr Duration kCheckEvery = std::chrono::milliseconds(50);
constexpr std::uint64_t kExchangesMax = 1'000'000;  // of one start
constexpr std::uint32_t kFewPeers = 16;
constexpr std::uint64_t kStartsMax = 128;  // of a world
constexpr std::uint64_t kExchangesOfWorld = 32'768;
// The window of the fit, two decades of V. It begins late enough for the faster modes to have decayed: there
// are up to n of them, the slowest one holds about 1/n of V, and if the others decay 1.5 times as fast they
// are negligible when V is down to n^-4. It ends before rare seeds dominate the mean: the effect of one
// exchange persists, so the spread of V among seeds grows exponentially, sooner with few peers or with one
// that matters more (a star's hub). If the fall is no longer known to a tenth, the window moves up. Few peers
// are cheap, so they get more starts.
double fit_begin(std::uint32_t peers) { return std::pow(peers, -4); }
// The window moves up to here at most.
double highest_fit_begin(std::uint32_t peers) { return std::pow(peers, -2); }
constexpr double kKnown = 0.1;       // standard error of the fall of ln V in the window
constexpr std::size_t kJudged = 32;  // curves
constexpr double kFitWindow = 1e-2;  // V at the end of the window, relative to its beginning

// A world whose machines exchange and do not train.
class ExchangingWorld : private Watcher {
 public:
  ExchangingWorld(const topologies::Topology& topology, std::uint32_t peers, Partners partners,
                  std::uint64_t seed)
      : random_(Random(seed).split(0x57a2)),
        world_(
            options(topology, peers, partners, seed),
            [](std::uint32_t) { return std::make_unique<IdleLearner>(); }, std::vector<float>(kArenaFloats)) {
    while (!whole()) run_for(kCheckEvery);
  }

  // Gives every machine a new random vector.
  void start() {
    while (!world_.quiet()) world_.run_one();
    std::vector<float> values(kArenaFloats);
    for (std::uint32_t i = 0; i < world_.machines(); ++i) {
      for (float& x : values) x = static_cast<float>(random_.normal());
      world_.set_parameters(i, values);
    }
    energy_ = world_.energy();
    completed_ = 0;
  }
  // Until this many exchanges are completed since start().
  void run_until(std::uint64_t exchanges) {
    while (completed_ < exchanges) world_.run_one();
  }
  std::uint64_t completed() const { return completed_; }
  double v() const { return world_.energy() / energy_; }
  // V after a start, at these numbers of exchanges.
  std::vector<double> curve(const std::vector<std::uint64_t>& exchanges) {
    std::vector<double> curve;
    start();
    for (const std::uint64_t count : exchanges) {
      run_until(count);
      curve.push_back(v());
    }
    return curve;
  }

 private:
  WorldOptions options(const topologies::Topology& topology, std::uint32_t peers, Partners partners,
                       std::uint64_t seed) {
    WorldOptions options;
    options.seed = seed;
    options.arena_floats = options.mix.cell_floats = kArenaFloats;
    options.mix.wary = false;  // replicas start far from their mean
    options.network.latency = kLatency;
    options.network.bandwidth = 1e12;
    Pace pace;
    pace.kind = Pace::Kind::poisson;
    pace.time = kInterval;
    options.rules = gossip::RunRules{topology, Rule::pairwise, pace, {}, partners};
    options.manifest.arena_floats = kArenaFloats;
    for (std::uint32_t i = 0; i < peers; ++i) {
      MachineOptions machine;
      machine.name = "p" + std::to_string(i);
      machine.step = std::chrono::hours(1000);
      options.machines.push_back(std::move(machine));
    }
    options.watcher = this;
    return options;
  }

  void run_for(Duration time) {
    const Instant until = world_.now() + time;
    while (world_.now() < until && world_.run_one()) {
    }
  }
  // Whether all machines train and know the same members.
  bool whole() const {
    const auto* first = world_.machine(0).membership;
    if (first == nullptr) return false;
    const std::vector<std::uint64_t> digest = first->view().digest();
    for (std::uint32_t i = 0; i < world_.machines(); ++i) {
      const auto machine = world_.machine(i);
      if (machine.phase != wire::Phase::training ||
          machine.membership->view().members.live() + 1 != world_.machines() ||
          machine.membership->view().digest() != digest) {
        return false;
      }
    }
    return true;
  }

  void completed(const Mix&) override { ++completed_; }  // the arena is one chunk

  Random random_;
  std::uint64_t completed_ = 0;
  double energy_ = 1;
  World world_;
};

using Curve = std::vector<double>;

// How many exchanges it takes until V is down to `v`, within a hundredth.
std::uint64_t exchanges_down_to(double v, const topologies::Topology& topology, std::uint32_t peers,
                                Partners partners, std::uint64_t seed) {
  ExchangingWorld world(topology, peers, partners, seed);
  world.start();
  while (world.v() > v && world.completed() < kExchangesMax)
    world.run_until(world.completed() + 1 + world.completed() / 100);
  return world.completed();
}

// The numbers of exchanges at which V is measured, dense where the curve still bends.
std::vector<std::uint64_t> measured_points(std::uint64_t length, std::uint32_t peers) {
  std::vector<std::uint64_t> points;
  for (std::uint64_t at = 0; at < length;
       at += std::max({std::uint64_t{1}, std::uint64_t{peers} / 4, at / 128}))
    points.push_back(at);
  points.push_back(length);
  return points;
}

// The curves of several starts in each of measured.seeds worlds, in the order of the seeds; nullopt if
// interrupted.
std::optional<std::vector<Curve>> run_worlds(const topologies::Topology& topology, std::uint32_t peers,
                                             const PairwiseOptions& options, const Random& random,
                                             const PairwiseSpread& measured) {
  const std::uint64_t length = measured.exchanges.back();
  const std::uint64_t starts = std::clamp<std::uint64_t>(
      std::min(1024 / std::uint64_t{peers}, kExchangesOfWorld / length), 1, kStartsMax);
  std::atomic<bool> stop{false};
  std::vector<Curve> curves;
  ThreadPool pool(options.threads);
  std::vector<std::future<std::vector<Curve>>> pending;
  for (std::uint64_t s = 0; s < measured.seeds; ++s) {
    pending.push_back(pool.submit([&, s] {
      std::vector<Curve> of_world;
      if (stop) return of_world;
      ExchangingWorld world(topology, peers, options.partners, random.split(1 + s).bits());
      for (std::uint64_t k = 0; k < starts; ++k) of_world.push_back(world.curve(measured.exchanges));
      return of_world;
    }));
  }
  for (std::uint64_t s = 0; s < measured.seeds; ++s) {
    for (Curve& curve : pending[s].get()) curves.push_back(std::move(curve));
    if (options.interrupted && options.interrupted()) stop = true;
    if (options.progress) options.progress(static_cast<double>(s + 1) / static_cast<double>(measured.seeds));
  }
  if (stop) return std::nullopt;
  return curves;
}

Curve mean_of(const std::vector<Curve>& curves) {
  Curve mean(curves.front().size());
  for (const Curve& curve : curves)
    for (std::size_t p = 0; p < mean.size(); ++p) mean[p] += curve[p] / static_cast<double>(curves.size());
  return mean;
}

// The standard error of the fall of ln V between two points: to first order, the mean over curves of the
// differences at both ends.
double error_of_fall(const std::vector<Curve>& curves, const Curve& mean, std::size_t from, std::size_t to) {
  double squares = 0;
  for (const Curve& curve : curves) {
    const double strays = curve[to] / mean[to] - curve[from] / mean[from];
    squares += strays * strays;
  }
  const auto count = static_cast<double>(curves.size());
  return std::sqrt(squares / count / std::max(1.0, count - 1));
}

// The first and last point of the fit. nullopt if V falls too slowly, or there are too few seeds.
std::optional<std::pair<std::size_t, std::size_t>> fit_window(const std::vector<Curve>& curves,
                                                              const Curve& mean, std::uint32_t peers) {
  // The spread of a few long curves is not known, and need not be: where mixing is slow, V varies little.
  const bool judged = curves.size() >= kJudged;
  std::size_t first = 0, last = 0;
  for (std::size_t p = 0, begins = 0; p < mean.size(); ++p) {
    if (mean[p] > kFitWindow * highest_fit_begin(peers)) continue;
    const double begin = std::max(fit_begin(peers), mean[p] / kFitWindow);
    while (begins < p && mean[begins] > begin) ++begins;
    if (begins == p) continue;
    if (judged && last != 0 && error_of_fall(curves, mean, begins, p) > kKnown) break;
    first = begins;
    last = p;
  }
  if (last == 0 || (!judged && mean[last] > fit_begin(peers))) return std::nullopt;
  return std::pair(first, last);
}

}  // namespace

std::optional<double> deviation_percent(std::optional<double> measured, std::optional<double> predicted) {
  const auto is_rate = [](const std::optional<double>& factor) {
    return factor && *factor > 0 && *factor < 1;
  };
  if (!is_rate(measured) || !is_rate(predicted)) return std::nullopt;
  return 100 * (std::log(*measured) / std::log(*predicted) - 1);
}

double pairwise_floor(std::uint32_t peers) { return kFitWindow * fit_begin(peers); }

Result<LockStepSpread> measure_lock_step(const Schedule& schedule, std::optional<Mixing> mixing,
                                         std::uint64_t seed) {
  const Mixing chosen = mixing.value_or(topologies::default_mixing(schedule));
  // The matrix itself is not used, only its error.
  const auto graph = topologies::Graph::of(schedule, 0);
  if (!graph) return graph.error();
  if (const auto matrix = topologies::mixing_matrix(*graph, chosen); !matrix) return matrix.error();

  const std::uint64_t period = schedule.period();
  std::vector<Round> rounds;
  for (std::uint64_t r = 0; r < period && period <= kRoundsKept; ++r)
    rounds.push_back(round_of(schedule, chosen, r));

  Replicas replicas(schedule.peers(), chosen, seed);
  LockStepSpread measured;
  measured.v = {1};
  const double start = replicas.disagreement();
  if (start == 0) return measured;  // a single peer
  for (std::uint64_t r = 0; r < kRoundsMax && measured.v.back() > kFitEnd; ++r) {
    replicas.go(rounds.empty() ? round_of(schedule, chosen, r) : rounds[r % period]);
    measured.v.push_back(replicas.disagreement() / start);
    if (r >= period) continue;
    measured.period_error = std::sqrt(replicas.error() / start);
    if (measured.period_error < kExact) {
      measured.exact_after = r + 1;
      measured.factor = 0;
      return measured;
    }
  }
  if (measured.v.back() <= kFitBegin) measured.factor = long_run_factor(measured.v, period);
  return measured;
}

PairwiseSpread measure_pairwise(const topologies::Topology& topology, std::uint32_t peers,
                                const PairwiseOptions& options) {
  STARLING_CHECK(peers >= 2);
  const Random random = Random(options.seed).split(0x9055);
  // A start that does not count shows how many exchanges are needed.
  std::uint64_t length =
      exchanges_down_to(pairwise_floor(peers), topology, peers, options.partners, random.split(0).bits());
  if (peers <= kFewPeers) length += length / 4;  // with few peers the mean may take longer than one start
  PairwiseSpread measured;
  measured.exchanges = measured_points(length, peers);
  // Where mixing is slow, a start is long and its V varies little.
  measured.seeds =
      options.seeds > 0 ? options.seeds : std::clamp<std::uint64_t>(kExchangesMax / length, 4, 16);
  const auto curves = run_worlds(topology, peers, options, random, measured);
  if (!curves) return measured;
  measured.v = mean_of(*curves);
  const auto window = fit_window(*curves, measured.v, peers);
  if (!window) return measured;
  // From end to end: the steps of ln V are independent, so only the ends of the window say anything about
  // their mean.
  const auto [first, last] = *window;
  const double fall = std::log(measured.v[last] / measured.v[first]);
  measured.factor =
      std::exp(fall / static_cast<double>(measured.exchanges[last] - measured.exchanges[first]));
  measured.rate_error = error_of_fall(*curves, measured.v, first, last) / std::abs(fall);
  return measured;
}

}  // namespace starling::lab
