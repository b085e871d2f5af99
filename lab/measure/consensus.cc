#include "lab/measure/consensus.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "lab/thread_pool.h"
#include "lab/world/watcher.h"
#include "lab/world/world.h"

namespace starling::lab {
namespace {

using topologies::Mixing;
using topologies::Schedule;

// ---- lock-step ----

constexpr std::size_t kFloats = 16;  // of a peer's vector; many directions at once, so that all modes are met
constexpr std::uint64_t kRoundsKept = 64;  // shorter periods are worked out once
// The window of the fit: by then what decays faster is gone (1e-5 of the start's disagreement is left), and
// rounding, at 1e-16 of it, is far.
constexpr double kFitBegin = 1e-10, kFitEnd = 1e-22;
constexpr double kExact = 1e-12;

// What a round does: a peer keeps a share of its own, and along each link a share moves.
struct Round {
  std::vector<double> kept;              // [n]
  std::vector<topologies::Links> links;  // [n], weight: the share
};

double strength(const topologies::Links& links, topologies::Weights kind) {
  double sum = 0;
  for (const auto& link : links) sum += kind == topologies::Weights::relative ? link.weight : 1;
  return sum;
}

// From everyone's own links; to weigh a link, its ends tell each other their strengths.
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

// n vectors, one after the other, and of push-sum the weights.
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
        // Uniform mixing takes the mean of those one links to; all else moves along the link.
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

  // sum |x_i - mean|^2, the mean as it is now.
  double disagreement() const {
    std::vector<double> now(kFloats);
    for (std::size_t f = 0; f < kFloats; ++f) now[f] = mean(f);
    return distance(now);
  }
  // The same, from the mean of the start.
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
  std::vector<double> u_;         // [n]; 1 but for push-sum
  std::vector<double> mean_;      // of the start
};

// The slope of ln v over the window, by least squares, from one round of each period: within a period V may
// fall by steps.
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
constexpr Duration kInterval = std::chrono::milliseconds(10);  // in the mean, of one peer's exchanges
constexpr Duration kLatency = std::chrono::microseconds(5);
constexpr Duration kLookEvery = std::chrono::milliseconds(50);
constexpr std::uint64_t kExchangesMax = 1'000'000;  // of one start
constexpr std::uint32_t kFewPeers = 16;
constexpr std::uint64_t kStartsMax = 128;  // of a world
constexpr std::uint64_t kExchangesOfWorld = 32'768;
// The window of the fit, two decades of V. It begins late enough for the modes that decay faster to be gone:
// there are up to n of them, the slowest one holds a share of about 1/n of V, and where the others decay half
// as fast again it takes V to n^-4 until they count for little. But it ends before rare seeds rule the mean:
// what chance does in one exchange stays, so the spread of V among seeds grows exponentially, the sooner the
// fewer peers there are and the more one of them matters (a star's hub); where the
// fall is not known to a tenth any more, the window is moved up. Few peers are cheap, so they get more
// starts.
double fit_begin(std::uint32_t peers) {
  return std::pow(peers, -4);
}
// It is moved up to here at most.
double highest_fit_begin(std::uint32_t peers) {
  return std::pow(peers, -2);
}
constexpr double kKnown = 0.1;       // standard error of the fall of ln V in the window
constexpr std::size_t kJudged = 32;  // curves
constexpr double kFitWindow = 1e-2;  // V at the end, relative to the beginning

class Idle : public Learner {
 public:
  void begin_step(std::uint32_t, const models::Arena&, Instant) override {}
  std::uint64_t end_step(std::uint32_t, models::Arena&) override { return 1; }
};

// A swarm that exchanges and does not learn.
class Swarm : private Watcher {
 public:
  Swarm(const topologies::Topology& topology, std::uint32_t peers, gossip::Partners partners,
        std::uint64_t seed)
      : random_(Random(seed).split(0x57a2)),
        world_(
            options(topology, peers, partners, seed), [](std::uint32_t) { return std::make_unique<Idle>(); },
            std::vector<float>(kArenaFloats)) {
    while (!whole()) run_for(kLookEvery);
  }

  // Everyone gets a fresh random vector.
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
  // Until so many exchanges were completed since the start.
  void run_until(std::uint64_t exchanges) {
    while (completed_ < exchanges) world_.run_one();
  }
  std::uint64_t completed() const { return completed_; }
  double v() const { return world_.energy() / energy_; }
  // V from a start on, after so many exchanges each.
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
  WorldOptions options(const topologies::Topology& topology, std::uint32_t peers, gossip::Partners partners,
                       std::uint64_t seed) {
    WorldOptions options;
    options.seed = seed;
    options.arena_floats = options.mix.cell_floats = kArenaFloats;
    options.mix.wary = false;  // every start is as far from the mean as can be
    options.network.latency = kLatency;
    options.network.bandwidth = 1e12;
    gossip::Pace pace;
    pace.kind = gossip::Pace::Kind::poisson;
    pace.time = kInterval;
    options.rules = gossip::RunRules{topology, gossip::Rule::pairwise, pace, {}, partners};
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
  // Everyone trains and sees the same members.
  bool whole() const {
    const auto* first = world_.machine(0).membership;
    if (first == nullptr) return false;
    const std::vector<std::uint64_t> digest = first->digest();
    for (std::uint32_t i = 0; i < world_.machines(); ++i) {
      const auto machine = world_.machine(i);
      if (machine.phase != wire::Phase::training ||
          machine.membership->live_others() + 1 != world_.machines() ||
          machine.membership->digest() != digest) {
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

// To within a hundredth.
std::uint64_t exchanges_down_to(double v, const topologies::Topology& topology, std::uint32_t peers,
                                gossip::Partners partners, std::uint64_t seed) {
  Swarm swarm(topology, peers, partners, seed);
  swarm.start();
  while (swarm.v() > v && swarm.completed() < kExchangesMax)
    swarm.run_until(swarm.completed() + 1 + swarm.completed() / 100);
  return swarm.completed();
}

}  // namespace

std::optional<double> deviation_percent(std::optional<double> measured, std::optional<double> predicted) {
  const auto is_rate = [](const std::optional<double>& factor) {
    return factor && *factor > 0 && *factor < 1;
  };
  if (!is_rate(measured) || !is_rate(predicted)) return std::nullopt;
  return 100 * (std::log(*measured) / std::log(*predicted) - 1);
}

double pairwise_floor(std::uint32_t peers) {
  return kFitWindow * fit_begin(peers);
}

Result<LockStep> measure_lock_step(const Schedule& schedule, std::optional<Mixing> mixing,
                                   std::uint64_t seed) {
  const Mixing chosen = mixing.value_or(topologies::default_mixing(schedule));
  // Not for the matrix: for the sentence where there is none.
  const auto graph = topologies::Graph::of(schedule, 0);
  if (!graph) return graph.error();
  if (const auto matrix = topologies::mixing_matrix(*graph, chosen); !matrix) return matrix.error();

  const std::uint64_t period = schedule.period();
  std::vector<Round> rounds;
  for (std::uint64_t r = 0; r < period && period <= kRoundsKept; ++r)
    rounds.push_back(round_of(schedule, chosen, r));

  Replicas replicas(schedule.peers(), chosen, seed);
  LockStep measured;
  measured.v = {1};
  const double start = replicas.disagreement();
  if (start == 0) return measured;  // one peer alone
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

Pairwise measure_pairwise(const topologies::Topology& topology, std::uint32_t peers,
                          const PairwiseOptions& options) {
  STARLING_CHECK(peers >= 2);
  const Random random = Random(options.seed).split(0x9055);
  // How many exchanges it takes is seen in a start that does not count.
  std::uint64_t length = exchanges_down_to(pairwise_floor(peers), topology, peers, options.partners,
                                           random.split(0).bits());
  if (peers <= kFewPeers) length += length / 4;  // a single start strays: the mean may take longer
  Pairwise measured;
  // Dense where curves still bend.
  for (std::uint64_t at = 0; at < length;
       at += std::max({std::uint64_t{1}, std::uint64_t{peers} / 4, at / 128}))
    measured.exchanges.push_back(at);
  measured.exchanges.push_back(length);
  const std::size_t points = measured.exchanges.size();
  // Where mixing is slow, a start is long and its V strays little.
  measured.seeds =
      options.seeds > 0 ? options.seeds : std::clamp<std::uint64_t>(kExchangesMax / length, 4, 16);
  const std::uint64_t starts = std::clamp<std::uint64_t>(
      std::min(1024 / std::uint64_t{peers}, kExchangesOfWorld / length), 1, kStartsMax);

  unsigned threads = options.threads;
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  std::atomic<bool> stop{false};
  std::vector<std::vector<double>> curves;  // in the order of seeds, whoever computed them
  {
    ThreadPool pool(threads);
    std::vector<std::future<std::vector<std::vector<double>>>> pending;
    for (std::uint64_t s = 0; s < measured.seeds; ++s) {
      pending.push_back(pool.submit([&, s] {
        std::vector<std::vector<double>> of_world;
        if (stop) return of_world;
        Swarm swarm(topology, peers, options.partners, random.split(1 + s).bits());
        for (std::uint64_t k = 0; k < starts; ++k) of_world.push_back(swarm.curve(measured.exchanges));
        return of_world;
      }));
    }
    for (std::uint64_t s = 0; s < measured.seeds; ++s) {
      for (auto& curve : pending[s].get()) curves.push_back(std::move(curve));
      if (options.interrupted && options.interrupted()) stop = true;
      if (options.progress)
        options.progress(static_cast<double>(s + 1) / static_cast<double>(measured.seeds));
    }
  }
  if (stop) return measured;

  const auto count = static_cast<double>(curves.size());
  measured.v.assign(points, 0);
  for (const auto& curve : curves)
    for (std::size_t p = 0; p < points; ++p) measured.v[p] += curve[p] / count;
  // The standard error of the fall of ln V between two points: to first order, it strays by the mean over
  // curves of what each strays at the ends.
  const auto error_of_fall = [&](std::size_t from, std::size_t to) {
    double squares = 0;
    for (const auto& curve : curves) {
      const double strays = curve[to] / measured.v[to] - curve[from] / measured.v[from];
      squares += strays * strays;
    }
    return std::sqrt(squares / count / std::max(1.0, count - 1));
  };
  // A few long curves cannot be judged by their spread, and need not be: where mixing is slow V strays
  // little.
  const bool judged = curves.size() >= kJudged;
  std::size_t first = 0, last = 0;
  for (std::size_t p = 0, begins = 0; p < points; ++p) {
    if (measured.v[p] > kFitWindow * highest_fit_begin(peers)) continue;
    const double begin = std::max(fit_begin(peers), measured.v[p] / kFitWindow);
    while (begins < p && measured.v[begins] > begin) ++begins;
    if (begins == p) continue;
    if (judged && last != 0 && error_of_fall(begins, p) > kKnown) break;
    first = begins;
    last = p;
  }
  if (last == 0 || (!judged && measured.v[last] > fit_begin(peers)))
    return measured;  // too slow, or too few seeds

  // From end to end: the steps of ln V are independent of one another, so all that the window tells of their
  // mean is in its ends.
  const double fall = std::log(measured.v[last] / measured.v[first]);
  measured.factor =
      std::exp(fall / static_cast<double>(measured.exchanges[last] - measured.exchanges[first]));
  measured.rate_error = error_of_fall(first, last) / std::abs(fall);
  return measured;
}

}  // namespace starling::lab
