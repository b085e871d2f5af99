// How soon crashed peers are detected, how often healthy ones are wrongly accused, and the traffic: the
// product's membership code in virtual time. Prints two Markdown tables.
//
//   membership_bench [SEEDS]     seeds per swarm size; 1 for a quick run, default 5
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "lab/world/world.h"

namespace starling {
namespace {

using lab::World;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kStep = milliseconds(100);  // step time of every peer, so that there is progress to report

class Idle : public lab::Learner {
 public:
  void begin_step(std::uint32_t, const models::Arena&, Instant) override {}
  std::uint64_t end_step(std::uint32_t, models::Arena&) override { return 32; }
};

lab::WorldOptions swarm_of(std::uint32_t n, std::uint64_t seed) {
  lab::WorldOptions options;
  options.seed = seed;
  options.arena_floats = 1;
  options.mix.cell_floats = 1;
  options.network.latency = milliseconds(1);
  options.network.latency_jitter = milliseconds(1);
  options.rules = gossip::RunRules{*topologies::Topology::parse("ring"), Rule::none, {}, {}};
  for (std::uint32_t i = 0; i < n; ++i) {
    lab::MachineOptions machine;
    machine.name = "p" + std::to_string(i);
    machine.step = kStep;
    machine.step_spread = 0.2;
    options.machines.push_back(machine);
  }
  return options;
}

std::unique_ptr<World> start(lab::WorldOptions options) {
  return std::make_unique<World>(
      std::move(options), [](std::uint32_t) { return std::make_unique<Idle>(); }, std::vector<float>{0});
}

void run_until(World& world, Instant until) {
  while (world.now() < until && world.run_one()) {
  }
}

// ---- detection ----

// For each crash: when the last live peer stopped listing the crashed one as alive.
class Deaths : public lab::Watcher {
 public:
  void watch(const World& world) { world_ = &world; }
  void ended(std::uint32_t machine, lab::MachineState) override {
    deaths_.push_back({world_->machine(machine).id, world_->now(), world_->now()});
  }
  void action(std::uint32_t, const gossip::Action& action) override {
    const auto* notice = std::get_if<gossip::Notice>(&action);
    if (notice == nullptr || notice->what != gossip::Notice::What::failed) return;
    for (Death& death : deaths_) {
      if (death.id == notice->peer) death.last = world_->now();
    }
  }
  // Seconds per crash; without those that a peer still lists as alive.
  std::vector<double> seconds_to_notice() const {
    std::vector<double> all;
    for (const Death& death : deaths_) {
      bool noticed = true;
      for (std::uint32_t i = 0; i < world_->machines(); ++i) {
        const auto machine = world_->machine(i);
        if (machine.state != lab::MachineState::running) continue;
        const auto* record = machine.membership->find(death.id);
        if (record != nullptr && record->is_live()) noticed = false;
      }
      if (noticed) all.push_back(to_seconds(death.last - death.at));
    }
    return all;
  }
  std::size_t size() const { return deaths_.size(); }

 private:
  struct Death {
    PeerId id;
    Instant at, last;
  };
  const World* world_ = nullptr;
  std::vector<Death> deaths_;
};

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  return values[rank];
}

std::uint64_t bytes_sent(const World& world) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < world.machines(); ++i) sum += world.machine(i).bytes_sent;
  return sum;
}

void print_detection(std::uint32_t n, std::uint32_t victims, std::uint64_t seeds) {
  std::vector<double> refused, silent;
  double traffic = 0, joined = 0;
  std::size_t missed = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const bool power_loss : {false, true}) {
      lab::WorldOptions options = swarm_of(n, seed);
      Instant end = Instant{seconds(40)};
      for (std::uint32_t k = 0; k < victims; ++k) {
        options.incidents.push_back(lab::Crash{n - 1 - k, end, power_loss, {}, false});
        end = end + seconds(2);
      }
      Deaths deaths;
      options.watcher = &deaths;
      const auto world = start(std::move(options));
      deaths.watch(*world);
      // All start at once through one address: time until all peers know all others.
      const auto complete = [&] {
        for (std::uint32_t i = 0; i < n; ++i) {
          const auto machine = world->machine(i);
          if (machine.membership == nullptr || machine.membership->view().members.live() + 1 != n)
            return false;
        }
        return true;
      };
      Instant look{};
      while (!complete() && world->now() < Instant{seconds(30)}) {
        look = look + milliseconds(100);
        run_until(*world, look);
      }
      joined = std::max(joined, to_seconds(world->now().since_start));
      run_until(*world, Instant{seconds(30)});
      const std::uint64_t before = bytes_sent(*world);
      run_until(*world, Instant{seconds(40)});
      traffic += static_cast<double>(bytes_sent(*world) - before) / 10 / n / static_cast<double>(2 * seeds);
      run_until(*world, end + seconds(60));
      const auto times = deaths.seconds_to_notice();
      missed += deaths.size() - times.size();
      auto& all = power_loss ? silent : refused;
      all.insert(all.end(), times.begin(), times.end());
    }
  }
  std::printf("| %u | %.1f | %.2f / %.2f | %.2f / %.2f | %zu of %zu | %.2f |\n", n, joined,
              quantile(refused, 0.5), quantile(refused, 0.99), quantile(silent, 0.5), quantile(silent, 0.99),
              missed, missed + refused.size() + silent.size(), traffic / 1000);
  std::fflush(stdout);
}

// ---- false accusations ----

// Counts episodes: an accusation of a machine that was not accused in the last ten seconds.
class Accusations : public lab::Watcher {
 public:
  void watch(const World& world) { world_ = &world; }
  void action(std::uint32_t, const gossip::Action& action) override {
    const auto* notice = std::get_if<gossip::Notice>(&action);
    if (notice == nullptr) return;
    if (notice->what == gossip::Notice::What::suspected) note(suspected_, notice->peer);
    if (notice->what == gossip::Notice::What::failed) note(failed_, notice->peer);
  }
  struct Tally {
    std::map<PeerId, Instant> last;
    std::map<std::uint32_t, std::uint64_t> episodes;  // by machine
  };
  std::uint64_t count(const Tally& tally, const std::vector<bool>& starved, bool of_starved) const {
    std::uint64_t sum = 0;
    for (const auto& [machine, episodes] : tally.episodes) {
      if (starved[machine] == of_starved) sum += episodes;
    }
    return sum;
  }
  const Tally& suspected() const { return suspected_; }
  const Tally& failed() const { return failed_; }

 private:
  void note(Tally& tally, PeerId id) {
    auto [last, first] = tally.last.try_emplace(id, world_->now());
    if (first || world_->now() - last->second > seconds(10)) ++tally.episodes[*world_->machine_of(id)];
    last->second = world_->now();
  }
  const World* world_ = nullptr;
  Tally suspected_, failed_;
};

void print_accusations(std::uint32_t n, Duration length, std::uint64_t seeds) {
  std::vector<double> failures, healthy_failures;
  double suspicions = 0, healthy_suspicions = 0, failed = 0, healthy_failed = 0, hours = 0;
  std::uint64_t pauses = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    lab::WorldOptions options = swarm_of(n, seed);
    Random random = Random(seed).split(7);
    std::vector<bool> starved(n);
    for (std::uint32_t k = 0; k < std::max(1U, (n + 5) / 10); ++k) starved[n - 1 - k] = true;
    for (std::uint32_t i = 0; i < n; ++i) {
      if (!starved[i]) continue;
      Instant at = Instant{seconds(20)} + from_seconds(10 * random.exponential());
      while (at < Instant{length}) {
        const Instant to = at + from_seconds(random.uniform(1, 5));
        options.incidents.push_back(lab::Pause{i, at, to});
        ++pauses;
        at = to + from_seconds(10 * random.exponential());
      }
    }
    std::stable_sort(options.incidents.begin(), options.incidents.end(),
                     [](const auto& a, const auto& b) { return lab::beginning(a) < lab::beginning(b); });
    Accusations accusations;
    options.watcher = &accusations;
    const auto world = start(std::move(options));
    accusations.watch(*world);
    run_until(*world, Instant{length});
    hours += n * to_seconds(length) / 3600;
    suspicions += static_cast<double>(accusations.count(accusations.suspected(), starved, true));
    healthy_suspicions += static_cast<double>(accusations.count(accusations.suspected(), starved, false));
    const auto of_starved = static_cast<double>(accusations.count(accusations.failed(), starved, true));
    const auto of_healthy = static_cast<double>(accusations.count(accusations.failed(), starved, false));
    failed += of_starved;
    healthy_failed += of_healthy;
    failures.push_back(of_starved);
    healthy_failures.push_back(of_healthy);
  }
  std::printf("| %u | %.1f | %llu | %.2f / %.2f | %.3f / %.3f | %.0f / %.0f |\n", n, hours,
              static_cast<unsigned long long>(pauses), suspicions / hours, healthy_suspicions / hours,
              failed / hours, healthy_failed / hours, quantile(failures, 0.5),
              quantile(healthy_failures, 0.5));
  std::fflush(stdout);
}

}  // namespace
}  // namespace starling

int main(int argc, char** argv) {
  const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 5;
  if (seeds == 0) {
    std::fprintf(stderr, "membership_bench: SEEDS: '%s'; expected a number above 0\n", argv[1]);
    return 2;
  }
  std::puts(
      "| peers | full view (s) | refused: p50 / p99 (s) | silent: p50 / p99 (s) | undetected | sent "
      "(kB/s a peer) |");
  std::puts("|---|---|---|---|---|---|");
  if (argc < 3) starling::print_detection(4, 1, 20 * seeds);
  starling::print_detection(16, 4, 5 * seeds);
  starling::print_detection(128, 20, seeds);
  starling::print_detection(1024, 30, (seeds + 4) / 5);
  std::puts(
      "\n| peers | peer-hours | pauses | suspicions per hour: starved / healthy | failures per hour: starved "
      "/ "
      "healthy | failures, median run |");
  std::puts("|---|---|---|---|---|---|");
  using std::chrono::seconds;
  starling::print_accusations(4, seconds(1800), seeds);
  starling::print_accusations(16, seconds(900), seeds);
  starling::print_accusations(128, seconds(300), seeds);
  starling::print_accusations(1024, seconds(120), (seeds + 4) / 5);
  return 0;
}
