#include "lab/hunt/hunt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lab/world/world.h"
#include "training/runs/records/json.h"

namespace starling::lab {
namespace {

using std::chrono::milliseconds;

constexpr Instant kFaultsBegin{std::chrono::seconds(4)};
constexpr Instant kFaultsEnd{std::chrono::seconds(40)};
constexpr Duration kLookEvery = milliseconds(100);
// Peers ask whether they can be dialed at intervals of up to 45 s, and an answer takes up to 10 s. Then the
// others learn of it.
constexpr Duration kAddressFound = std::chrono::seconds(25);
constexpr Duration kReachLimit = std::chrono::seconds(120);
constexpr Duration kReachSettles = std::chrono::seconds(10);
constexpr std::uint64_t kTwiceEvery = 64;

// Adds a random value to every float at each of its first steps; later steps add nothing (rate 0).
class SyntheticLearner : public Learner {
 public:
  SyntheticLearner(Random random, std::uint64_t steps, std::size_t floats)
      : state_(random.bits()), left_(steps), delta_(steps > 0 ? floats : 0) {}
  void begin_step(std::uint32_t, const models::Arena&, Instant) override {}
  std::uint64_t end_step(std::uint32_t, models::Arena& arena) override {
    if (left_ == 0) return 1;
    --left_;
    draw();
    arena.add(0, delta_);
    return 1;
  }

 private:
  // A linear congruential generator is random enough. Each of its steps waits for the one before it, so four
  // numbers are advanced by four steps at a time.
  void draw() {
    constexpr std::uint64_t kA = 6364136223846793005U, kC = 1442695040888963407U;
    constexpr std::uint64_t kA4 = kA * kA * kA * kA, kC4 = kC * (kA * kA * kA + kA * kA + kA + 1);
    const auto value = [](std::uint64_t x) {
      return static_cast<float>(static_cast<std::int32_t>(x >> 32)) * 0x1p-33F;
    };
    std::array<std::uint64_t, 4> next{};
    for (std::uint64_t last = state_; std::uint64_t & x : next) x = last = last * kA + kC;
    std::size_t f = 0;
    for (; f + next.size() <= delta_.size(); f += next.size()) {
      state_ = next.back();
      for (std::size_t k = 0; k < next.size(); ++k) {
        delta_[f + k] = value(next[k]);
        next[k] = next[k] * kA4 + kC4;
      }
    }
    for (; f < delta_.size(); ++f) {
      state_ = state_ * kA + kC;
      delta_[f] = value(state_);
    }
  }

  std::uint64_t state_;
  std::uint64_t left_;
  std::vector<float> delta_;
};

struct Scenario {
  WorldOptions world;
  CheckSetting check;
  Instant end;
  std::uint64_t learning_steps = 0;
  std::vector<float> first_parameters;
};

double log_uniform(Random& random, double low, double high) {
  return std::exp(random.uniform(std::log(low), std::log(high)));
}

std::uint32_t servers_of(const WorldOptions& world) {
  return world.rules->servers.shards + world.rules->servers.racks;
}

// The first machines are servers, the others train.
void draw_servers(Random& random, WorldOptions& world) {
  gossip::RunRules& rules = *world.rules;
  rules.servers.shards = static_cast<std::uint32_t>(1 + random.below(2));
  rules.servers.staleness = 1 + random.below(5);
  if (traits(rules.rule).bounded) {
    rules.pace = {Pace::Kind::steps, 1 + random.below(8), {}};
  } else if (world.machines.size() >= 6) {
    rules.servers.racks = static_cast<std::uint32_t>(random.below(3));
  }
  for (std::uint32_t k = 0; k < servers_of(world); ++k) world.machines[k].name = "s" + std::to_string(k);
}

// Up to four, if there are as many cells.
void draw_fragments(Random& random, WorldOptions& world) {
  const training::CellGrid grid{world.arena_floats, world.mix.cell_floats};
  gossip::RunRules& rules = *world.rules;
  rules.fragments = static_cast<std::uint32_t>(1 + random.below(std::min<std::size_t>(4, grid.count())));
  world.mix.fragments = rules.fragments;
  if (rules.pace.kind == Pace::Kind::steps) rules.pace.steps *= rules.fragments;
}

// The number of rules that exchange: they come first in the table of rules.
std::size_t exchanging_rules() {
  return static_cast<std::size_t>(
      std::find_if(kRules.begin(), kRules.end(), [](const RuleTraits& rule) { return !rule.exchanges(); }) -
      kRules.begin());
}

// Half of the seeds average pairwise in float32, for which most can be checked; the others draw a rule and a
// payload.
void draw_rule(Random& random, std::optional<Rule> wanted, WorldOptions& world) {
  gossip::RunRules& rules = *world.rules;
  rules.rule = Rule::pairwise;
  world.mix.payload = Payload::f32;
  if (random.chance(0.5) || wanted) {
    rules.rule = static_cast<Rule>(random.below(exchanging_rules()));
    rules.rule = wanted.value_or(rules.rule);
    constexpr std::array kDense = {Payload::f32, Payload::bf16, Payload::int8};
    if (traits(rules.rule).takes(Payload::top_k)) {
      world.mix.payload = static_cast<Payload>(random.below(4));
      world.mix.top_k = random.uniform(0.02, 0.5);
    } else if (traits(rules.rule).keeps != Keeps::weighted_sum) {  // the checkers compute in float32
      world.mix.payload = kDense[random.below(kDense.size())];
    }
  }
  world.mix.rule = rules.rule;
  const auto n = static_cast<std::uint32_t>(world.machines.size());
  while (traits(rules.rule).undirected && rules.topology.among(n).directed())
    rules.topology = *topologies::Topology::parse(random_topology(random));
  if (traits(rules.rule).paced == Paced::by_time && rules.pace.kind == Pace::Kind::steps) {
    rules.pace.kind = Pace::Kind::time;
    rules.pace.time = from_seconds(random.uniform(0.1, 1));
  }
  if (traits(rules.rule).has_servers()) draw_servers(random, world);
  if (traits(rules.rule).has_outer_steps()) draw_fragments(random, world);
  if (traits(rules.rule).shares && random.chance(0.1))
    rules.shares = random.chance(0.5) ? Shares::work : Shares::age;
}

void draw_run(Random& random, WorldOptions& world) {
  Pace pace;
  double latency = log_uniform(random, 50e-6, 20e-3);
  switch (random.below(8)) {
    case 0:
      pace.kind = Pace::Kind::always;
      latency = random.uniform(10e-3, 30e-3);  // otherwise there are thousands of exchanges per second
      break;
    case 1:
    case 2:
      pace.kind = Pace::Kind::time;
      pace.time = from_seconds(random.uniform(0.1, 1));
      if (random.chance(0.5)) pace.kind = Pace::Kind::poisson;
      break;
    default:
      pace.steps = 1 + random.below(8);
  }
  world.rules = gossip::RunRules{*topologies::Topology::parse(random_topology(random)),
                                 Rule::pairwise,
                                 pace,
                                 {},
                                 static_cast<Partners>(random.below(3))};
  world.arena_floats = 16 + random.below(1009);
  const std::size_t chunks = 1 + random.below(8);
  world.chunk_cells = 1 + random.below(4);
  const std::size_t cells = chunks * world.chunk_cells;
  world.mix.cell_floats = (world.arena_floats + cells - 1) / cells;
  world.mix.seed = world.seed;
  world.window = 1 + random.below(4);
  world.manifest.arena_floats = world.arena_floats;
  world.network.latency = from_seconds(latency);
  world.network.latency_jitter = from_seconds(latency * log_uniform(random, 0.1, 2));
  world.network.bandwidth = log_uniform(random, 1e7, 1e9);
  world.cache_interval = std::chrono::seconds(5);
  world.begin_after = std::chrono::seconds(12);
}

// Shorter intervals than the defaults, so that a virtual minute contains many suspicions; some seeds use the
// default interval of probes.
void draw_membership(Random& random, gossip::MembershipOptions& membership) {
  membership.probe_interval = random.chance(0.125) ? milliseconds(1000) : milliseconds(250);
  membership.gossip_interval = milliseconds(50 + random.below(100));
  membership.retry.max = std::chrono::seconds(6);
  membership.sync.max = milliseconds(1000 + random.below(3000));
  membership.quarantine = std::chrono::seconds(5);
}

// Peers of which neither can be dialed probe each other through a third one: four hops, which must take less
// than the interval of the probes.
void shorten_hops(WorldOptions& world) {
  const bool any = std::ranges::any_of(world.incidents, [](const Incident& it) {
    return std::holds_alternative<Router>(it) || std::holds_alternative<Move>(it);
  });
  const double hop = to_seconds(world.network.latency + world.network.latency_jitter);
  const double factor = to_seconds(world.peer.membership.probe_interval) / 16 / hop;
  if (!any || factor >= 1) return;
  world.network.latency = from_seconds(factor * to_seconds(world.network.latency));
  world.network.latency_jitter = from_seconds(factor * to_seconds(world.network.latency_jitter));
}

CheckSetting bounds_of(const WorldOptions& world) {
  const auto& membership = world.peer.membership;
  const auto n = static_cast<double>(world.machines.size());
  const double interval = to_seconds(membership.probe_interval);
  const double suspicion = membership.suspicion_multiplier * std::max(1.0, std::log10(n)) * interval;
  CheckSetting check;
  check.faults_end = kFaultsEnd;
  // Clocks may be slow by a hundredth; messages may take a second in all.
  const double detection =
      (2 * n - 1) * interval + 2 * suspicion + 4 * std::ceil(std::log2(n + 1)) * interval;
  check.detection = from_seconds(1.02 * detection + 1);
  check.recovery = from_seconds(1.02 * (1.25 * to_seconds(membership.retry.max) + detection) + 1);
  // A connection with a machine that has moved is missed after a write. The machine asks for its address at
  // intervals, and peers that cannot be dialed cannot reach it before it knows.
  const auto any = [&](const auto& is) { return std::ranges::any_of(world.incidents, is); };
  const bool moves = any([](const Incident& it) { return std::holds_alternative<Move>(it); });
  if (moves) check.recovery += world.network.write_limit + world.network.dial_limit + kAddressFound;
  // So is a connection whose other end is closed, if only this end can dial.
  const bool half_opens = any([](const Incident& it) { return std::holds_alternative<HalfOpen>(it); });
  const bool routers = any([](const Incident& it) { return std::holds_alternative<Router>(it); });
  if (!moves && half_opens && routers) check.recovery += world.network.write_limit;
  return check;
}

// Whether no incident hinders messages between live peers.
bool is_calm(const std::vector<Incident>& incidents) {
  return std::ranges::all_of(incidents, [](const Incident& it) {
    return std::holds_alternative<Crash>(it) || std::holds_alternative<Departure>(it) ||
           std::holds_alternative<Lies>(it) || std::holds_alternative<TopologyChange>(it);
  });
}

// Members that make offers and nothing else meet peers that answer few. A peer that waits for others in its
// turn (lock-step), or answers each member once (servers), has no limit.
void make_answers_scarce(Random& random, WorldOptions& world) {
  const auto hoards = [](const Incident& it) {
    const auto* const lies = std::get_if<Lies>(&it);
    return lies != nullptr && lies->kind == LieKind::offers;
  };
  if (!std::ranges::any_of(world.incidents, hoards)) return;
  if (traits(world.rules->rule).meeting != Meeting::whenever)
    return static_cast<void>(std::erase_if(world.incidents, hoards));
  world.peer.answers_max = static_cast<std::uint32_t>(1 + random.below(4));
  world.answers.answers_scarce = world.peer.answers_max;
}

// In some seeds peers begin together: all that start early, as founders or by copying from the first, or also
// some that come late or never.
void draw_joint_start(std::uint64_t seed, Scenario& scenario) {
  Random random = Random(seed).split(0x09e4);
  if (!random.chance(0.3)) return;
  WorldOptions& world = scenario.world;
  const bool all = random.chance(0.2);
  const auto is_early = [&](const MachineOptions& machine) {
    return gossip::role_of(machine.name, world.rules->servers).kind == gossip::Role::Kind::worker &&
           (all || machine.start < kFaultsBegin);
  };
  scenario.check.together = static_cast<std::uint32_t>(std::ranges::count_if(world.machines, is_early));
  world.peer.membership.expected = scenario.check.together;
  world.peer.membership.awaits_expected = true;
  world.together = !all && random.chance(0.5);
  if (!world.together) return;
  for (MachineOptions& machine : world.machines)
    if (machine.start < kFaultsBegin) machine.start = Instant{};
}

Scenario draw_scenario(const HuntOptions& options, std::uint64_t seed) {
  Random random = Random(seed).split(0x4a17);
  Scenario scenario;
  WorldOptions& world = scenario.world;
  world.seed = seed;
  const auto n = options.peers.value_or(static_cast<std::uint32_t>(3 + random.below(10)));
  draw_run(random, world);
  draw_membership(random, world.peer.membership);
  world.peer.unwelcomed.retry.max = std::chrono::seconds(4);
  world.peer.round_limit = std::chrono::seconds(20);
  for (std::uint32_t i = 0; i < n; ++i) {
    MachineOptions machine;
    machine.name = "p" + std::to_string(i);
    machine.step = from_seconds(random.uniform(0.05, 0.25));
    machine.step_spread = random.chance(0.5) ? random.uniform(0, 0.5) : 0;
    if (i > 0) machine.start = Instant{from_seconds(random.uniform(0, 1))};
    world.machines.push_back(std::move(machine));
  }
  draw_rule(random, options.rule, world);
  const Faults faults = *Faults::named(options.faults);
  // The first machine may begin the run; workers have to reach their servers.
  const std::uint32_t servers = traits(world.rules->rule).has_servers() ? servers_of(world) : 0;
  FaultDraw drawn = draw(seed, faults, {n, kFaultsBegin, kFaultsEnd, std::max(1U, servers)});
  world.incidents = std::move(drawn.incidents);
  make_answers_scarce(random, world);
  shorten_hops(world);
  world.network.tail_chance = faults.links.tail_chance;
  world.network.tail_factor = 100;
  world.network.tail_until = kFaultsEnd;
  for (std::uint32_t i = 1; i < n; ++i) {
    if (drawn.late[i]) world.machines[i].start = *drawn.late[i];
  }
  scenario.learning_steps = random.chance(0.3) ? UINT64_MAX : 10 + random.below(100);
  scenario.first_parameters.resize(world.arena_floats);
  for (float& x : scenario.first_parameters) x = static_cast<float>(random.normal());
  scenario.check = bounds_of(world);
  scenario.check.calm = is_calm(world.incidents) && world.network.tail_chance == 0;
  // In lock-step a peer may wait for one that waits: either may use a connection that the other end has
  // closed without notice, which only the timeout of the exchange tells.
  const int waits = traits(world.rules->rule).meeting == Meeting::lock_step ? 2 : 1;
  const Duration exchange = waits * world.peer.exchange_timeout + std::chrono::seconds(5);
  scenario.end = kFaultsEnd + std::max(scenario.check.recovery, exchange) + std::chrono::seconds(1);
  draw_joint_start(seed, scenario);
  return scenario;
}

// Counts an incident; drifts, poisonings and mutations are not counted.
struct Counter {
  HuntTotals& totals;
  void operator()(const Crash& c) const { ++totals.crashes, totals.restarts += c.back.has_value(); }
  void operator()(const Departure& l) const { ++totals.leaves, totals.restarts += l.back.has_value(); }
  void operator()(const Pause&) const { ++totals.pauses; }
  void operator()(const Slow&) const { ++totals.slownesses; }
  void operator()(const SlowDisk&) const { ++totals.slownesses; }
  void operator()(const Damage&) const { ++totals.losses; }
  void operator()(const Lies&) const { ++totals.lies; }
  void operator()(const TopologyChange&) const { ++totals.rewirings; }
  void operator()(const Cut&) const { ++totals.cuts; }
  void operator()(const Partition&) const { ++totals.partitions; }
  void operator()(const Clog&) const { ++totals.clogs; }
  void operator()(const Reset&) const { ++totals.resets; }
  void operator()(const Router&) const { ++totals.routers; }
  void operator()(const Move&) const { ++totals.moves; }
  void operator()(const NoNames&) const { ++totals.name_failures; }
  void operator()(const HalfOpen&) const { ++totals.half_opens; }
  template <class Other>
  void operator()(const Other&) const {}
};

// A count with its JSON field and its words.
struct Count {
  std::uint64_t HuntTotals::*count;
  const char *key, *one, *many;
};
using T = HuntTotals;
constexpr std::array<Count, 16> kFaults = {{
    {&T::crashes, "crashes", "crash", "crashes"},
    {&T::leaves, "leaves", "leave", "leaves"},
    {&T::restarts, "restarts", "restart", "restarts"},
    {&T::pauses, "pauses", "pause", "pauses"},
    {&T::slownesses, "slownesses", "slowness", "slownesses"},
    {&T::partitions, "partitions", "partition", "partitions"},
    {&T::cuts, "cuts", "cut", "cuts"},
    {&T::clogs, "clogs", "clog", "clogs"},
    {&T::resets, "resets", "reset", "resets"},
    {&T::half_opens, "half_opens", "half-open link", "half-open links"},
    {&T::rewirings, "rewirings", "change of topology", "changes of topology"},
    {&T::losses, "losses", "lost replica", "lost replicas"},
    {&T::lies, "lies", "time of lies", "times of lies"},
    {&T::routers, "routers", "router", "routers"},
    {&T::moves, "moves", "new address", "new addresses"},
    {&T::name_failures, "name_failures", "failure of names", "failures of names"},
}};
constexpr Count kSeeds{&T::seeds, "seeds", "seed", "seeds"};
constexpr Count kBroken{&T::connections_broken, "connections_broken", "connection", "connections"};
constexpr Count kPoison{&T::poison_refused, "poisoned_chunks_refused", "poisoned chunk", "poisoned chunks"};
constexpr Count kMutations{&T::mutations_refused, "mutated_frames_refused", "mutated frame",
                           "mutated frames"};
constexpr Count kCompleted{&T::exchanges_completed, "completed", "exchange", "exchanges"};
constexpr Count kCircuits{&T::circuits, "circuits", "circuit", "circuits"};
constexpr Count kHalfApplied{&T::half_applied_chunks, "half_applied_chunks", "chunk", "chunks"};

void add(HuntTotals& sum, const HuntTotals& totals) {
  sum.virtual_time += totals.virtual_time;
  for (const Count& it : kFaults) sum.*it.count += totals.*it.count;
  using Number = std::uint64_t HuntTotals::*;
  for (const Number count : std::initializer_list<Number>{
           kSeeds.count, kBroken.count, kPoison.count, kMutations.count, kCompleted.count, kHalfApplied.count,
           kCircuits.count, &T::happenings, &T::exchanges_aborted})
    sum.*count += totals.*count;
}

HuntTotals totals_of(const World& world, const Checkers& checkers) {
  HuntTotals totals{checkers.counts()};
  totals.seeds = 1;
  totals.virtual_time = world.now().since_start;
  totals.happenings = world.happenings();
  for (const Incident& incident : world.options().incidents) std::visit(Counter{totals}, incident);
  totals.connections_broken = world.network().broken();
  return totals;
}

std::string words(const HuntTotals& totals, const Count& count) {
  const std::uint64_t n = totals.*count.count;
  return fmt::format("{} {}", n, n == 1 ? count.one : count.many);
}

// The line that replays the seed of this thread, written if an assertion fails.
thread_local std::string replay_of_this_thread;

extern "C" void tell_replay(int) {
  const std::string& line = replay_of_this_thread;  // abort() is raised on the thread that runs the seed
  if (!line.empty() && ::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace

SeedOutcome hunt_seed(const HuntOptions& options, std::uint64_t seed, std::string* story,
                      std::optional<PlantedBug> bug) {
  Scenario scenario = draw_scenario(options, seed);
  const std::size_t floats = scenario.world.arena_floats;
  const std::unique_ptr<Sabotage> sabotage = bug ? plant(*bug, seed) : nullptr;
  const std::unique_ptr<Checkers> watcher =
      story != nullptr ? make_story(scenario.check, *story) : std::make_unique<Checkers>(scenario.check);
  Checkers& checkers = *watcher;
  scenario.world.sabotage = sabotage.get();
  if (sabotage) sabotage->before_start(scenario.world.peer.membership);
  scenario.world.watcher = &checkers;

  const Random learning = Random(seed).split(0x1ea4);
  World world(
      std::move(scenario.world),
      [&](std::uint32_t i) {
        return std::make_unique<SyntheticLearner>(learning.split(i), scenario.learning_steps, floats);
      },
      std::move(scenario.first_parameters));
  checkers.watch(world);

  Instant next_look = Instant{} + kLookEvery;
  bool faults_over = false;
  Instant latest_end = kNever;
  while (world.now() < scenario.end && !checkers.violation() && world.run_one()) {
    if (!faults_over && world.now() >= kFaultsEnd) {
      faults_over = true;
      scenario.end = scenario.end + checkers.barrier();
      // A peer is passed over for at most as long as it was silent: in its longest step, too.
      latest_end = scenario.end + (scenario.end - kFaultsEnd) + kReachLimit;
    }
    if (world.now() < next_look) continue;
    checkers.look();
    const auto [addresses_differ, awaited_again] = checkers.unsettled();
    if (faults_over && addresses_differ && world.now() < kFaultsEnd + kReachLimit)
      scenario.end = std::max(scenario.end, world.now() + kReachSettles);
    if (faults_over && awaited_again > Instant{})
      scenario.end = std::max(scenario.end, std::min(awaited_again + kReachSettles, latest_end));
    next_look = world.now() + kLookEvery;
  }
  checkers.finish();
  return {checkers.violation(), world.trace_hash(), totals_of(world, checkers)};
}

HuntOutcome hunt(const HuntOptions& options) {
  const auto before = std::signal(SIGABRT, tell_replay);
  HuntOutcome outcome;
  std::mutex mutex;
  std::atomic<std::uint64_t> next{options.from};
  std::atomic<bool> stop{false};
  std::uint64_t done = 0;
  const auto work = [&] {
    for (;;) {
      if (stop) return;
      const std::uint64_t seed = next++;
      if (seed >= options.to) return;
      replay_of_this_thread = replay_line(options, seed) + "\n";
      SeedOutcome result = hunt_seed(options, seed);
      if (!result.violation && seed % kTwiceEvery == 0 &&
          hunt_seed(options, seed).trace_hash != result.trace_hash) {
        result.violation = Violation{10, Instant{}, "the same seed gave two different runs"};
      }
      const std::lock_guard lock(mutex);
      add(outcome.totals, result.totals);
      ++done;
      // Lower seeds than a failed one began before it: the lowest that fails is reported.
      if (result.violation && (!outcome.failure || seed < outcome.failure->seed)) {
        outcome.failure = HuntOutcome::Failure{seed, *result.violation};
        stop = true;
      }
      if (options.interrupted && options.interrupted()) stop = true;
      if (options.progress) options.progress(done);
    }
  };
  unsigned threads = options.threads;
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> workers;
  for (unsigned k = 1; k < threads; ++k) workers.emplace_back(work);
  work();
  workers.clear();  // joins
  replay_of_this_thread.clear();
  std::signal(SIGABRT, before);
  return outcome;
}

std::string replay_line(const HuntOptions& options, std::uint64_t seed) {
  std::string line = fmt::format("starling hunt --seeds {}..{} --faults {}", seed, seed + 1, options.faults);
  if (options.peers) line += fmt::format(" --peers {}", *options.peers);
  if (options.rule) line += fmt::format(" --rule {}", traits(*options.rule).name);
  return line;
}

// ---- the outcome ----

std::string hunt_text(const HuntOptions& options, const HuntOutcome& outcome) {
  const HuntTotals& t = outcome.totals;
  std::string text =
      fmt::format("{}, {:.1f} virtual hours", words(t, kSeeds), to_seconds(t.virtual_time) / 3600);
  for (const Count& count : kFaults) text += (&count == kFaults.data() ? ": " : ", ") + words(t, count);
  text += fmt::format(
      "\n{} broke; {} and {} were refused; {} completed, {} aborted, {} half applied; {} opened\n",
      words(t, kBroken), words(t, kPoison), words(t, kMutations), words(t, kCompleted), t.exchanges_aborted,
      words(t, kHalfApplied), words(t, kCircuits));
  if (!outcome.failure) return text + "no violation\n";
  const auto& [seed, violation] = *outcome.failure;
  return text + fmt::format("seed {} violates statement {} at {:.3f} s: {}\n{}\n", seed, violation.statement,
                            to_seconds(violation.at.since_start), violation.text, replay_line(options, seed));
}

std::string to_json(const HuntOptions& options, const HuntOutcome& outcome) {
  const HuntTotals& t = outcome.totals;
  training::Json failure;
  if (outcome.failure) {
    failure = {{"seed", outcome.failure->seed},
               {"statement", outcome.failure->violation.statement},
               {"at_seconds", to_seconds(outcome.failure->violation.at.since_start)},
               {"text", outcome.failure->violation.text},
               {"replay", replay_line(options, outcome.failure->seed)}};
  }
  training::Json object = {{"faults", options.faults},
                           {"seeds", t.seeds},
                           {"virtual_seconds", to_seconds(t.virtual_time)},
                           {"happenings", t.happenings}};
  for (const Count& it : kFaults) object[it.key] = t.*it.count;
  for (const Count& it : {kBroken, kPoison, kMutations, kCircuits}) object[it.key] = t.*it.count;
  object["exchanges"] = {{"completed", t.exchanges_completed},
                         {"aborted", t.exchanges_aborted},
                         {"half_applied_chunks", t.half_applied_chunks}};
  object["failure"] = failure;
  return training::to_text(object);
}

}  // namespace starling::lab
