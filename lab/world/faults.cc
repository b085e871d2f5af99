#include "lab/world/faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "topologies/topology.h"

namespace starling::lab {
namespace {

std::string at_text(Instant at) {
  return at == kNever ? "the end" : fmt::format("{:.3f} s", to_seconds(at.since_start));
}

std::string span(Instant from, Instant to) {
  return fmt::format("From {} to {} ", at_text(from), at_text(to));
}

std::string again(const std::optional<Instant>& back) {
  return back ? "; at " + at_text(*back) + " it is back as a new instance" : "";
}

struct Teller {
  const std::vector<std::string>& names;

  const std::string& name(std::uint32_t machine) const { return names.at(machine); }

  std::string list(const std::vector<std::uint32_t>& machines) const {
    std::vector<std::string_view> all;
    for (const std::uint32_t machine : machines) all.push_back(name(machine));
    return fmt::format("{}", fmt::join(all, ", "));
  }

  std::string operator()(const Crash& c) const {
    const char* const cache = c.cached ? ", with its cache of addresses" : ", without a cache";
    return fmt::format("At {} {} {}{}{}", at_text(c.at), name(c.machine),
                       c.silent ? "loses its power" : "crashes", again(c.back), c.back ? cache : "");
  }
  std::string operator()(const Departure& l) const {
    return fmt::format("At {} {} is asked to leave{}", at_text(l.at), name(l.machine), again(l.back));
  }
  std::string operator()(const Pause& p) const {
    return span(p.from, p.to) + "nothing happens on " + name(p.machine);
  }
  std::string operator()(const Slow& s) const {
    const double factor = s.factor.factor();
    return fmt::format("{}steps of {} take {}", span(s.from, s.to), name(s.machine),
                       factor > 0 ? fmt::format("{:.3g} times as long", factor)
                                  : "a random time longer, " + s.factor.text());
  }
  std::string operator()(const SlowDisk& d) const {
    return fmt::format("{}the disk of {} takes {:.3g} s per access", span(d.from, d.to), name(d.machine),
                       to_seconds(d.access));
  }
  std::string operator()(const Drift& d) const {
    return fmt::format("The clock of {} runs at {:f} of true time", name(d.machine), 1 + d.rate);
  }
  std::string operator()(const Poison& p) const {
    return fmt::format("{}{:.3g} % of the chunks that {} sends are poisoned ({})", span(p.from, p.to),
                       100 * p.chance, name(p.machine), lab::name(p.kind));
  }
  std::string operator()(const Lies& l) const {
    return fmt::format("{}{} lies every {:.3g} s ({})", span(l.from, l.to), name(l.machine),
                       to_seconds(l.every), lab::name(l.kind));
  }
  std::string operator()(const Damage& l) const {
    return fmt::format(
        fmt::runtime(l.device ? "At {} the device of {} is lost" : "At {} parameters of {} become NaN"),
        at_text(l.at), name(l.machine));
  }
  std::string operator()(const Cut& c) const {
    return fmt::format("{}nothing travels from {} to {}{}", span(c.from, c.to), name(c.source),
                       name(c.target), c.both_ways ? ", nor back" : "");
  }
  std::string operator()(const Partition& p) const {
    const char* const way = !p.inwards ? "out of" : !p.outwards ? "into" : "into or out of";
    return fmt::format("{}nothing travels {} {{{}}}", span(p.from, p.to), way, list(p.island));
  }
  std::string operator()(const Clog& c) const {
    return fmt::format("{}the bandwidth between {} and {} is divided by {:.3g}", span(c.from, c.to),
                       name(c.a), name(c.b), c.factor);
  }
  std::string operator()(const PoorLinks& p) const {
    std::string text = span(p.from, p.to) + "the links of " + list(p.machines) +
                       (p.others.empty() ? "" : " to " + list(p.others)) + " have";
    if (p.shape.latency) text += fmt::format(" a latency of {:.3g} s,", to_seconds(*p.shape.latency));
    if (p.shape.bandwidth) text += fmt::format(" a bandwidth of {:.3g} bit/s,", *p.shape.bandwidth);
    return text + fmt::format(" and lose {:.3g} % of what is sent at first", 100 * p.shape.drop);
  }
  std::string operator()(const Reset& r) const {
    return fmt::format("At {} the connections between {} and {} break", at_text(r.at), name(r.a), name(r.b));
  }
  std::string operator()(const HalfOpen& h) const {
    return fmt::format("At {} the connections between {} and {} break, and only {} is notified",
                       at_text(h.at), name(h.knows), name(h.deaf), name(h.knows));
  }
  std::string operator()(const TopologyChange& r) const {
    return fmt::format("At {} a user requests the topology {} at {}", at_text(r.at), r.topology,
                       name(r.machine));
  }
  std::string operator()(const Router& r) const {
    return name(r.machine) + " is behind a router" + (r.knows ? "" : " and does not know it");
  }
  std::string operator()(const Relaying& r) const {
    return fmt::format("{} relays {} bit/s", name(r.machine), r.bandwidth);
  }
  std::string operator()(const Move& m) const {
    return fmt::format("At {} the address of {} changes", at_text(m.at), name(m.machine));
  }
  std::string operator()(const NoNames& n) const {
    return fmt::format("{}{} makes no new connections by name", span(n.from, n.to), name(n.machine));
  }
  std::string operator()(const Mutation& m) const {
    return fmt::format("{}{:.3g} % of all control frames have a bit flipped", span(m.from, m.to),
                       100 * m.chance);
  }
};

// Draws each kind of incident from its own random stream, so that the frequency of one kind does not change
// the others.
class Drawer {
 public:
  Drawer(std::uint64_t seed, const Faults& faults, const FaultSetting& setting)
      : base_(Random(seed).split(0xfa17)), random_(base_), faults_(faults), setting_(setting) {
    draw_.late.resize(setting.machines);
    pillar_.assign(setting.machines, false);
    const std::vector<std::uint32_t> all = shuffled_machines();
    for (std::size_t i = 0; i < std::min<std::size_t>(2, all.size()); ++i) pillar_[all[i]] = true;
    // One that can be dialed has to be up at any time: a pillar.
    fixed_.assign(setting.machines, false);
    std::fill_n(fixed_.begin(), std::min(setting.machines, setting.reachable), true);
    const bool is_enough = setting.machines <= 3 && pillar_[0];
    if (!is_enough) fixed_[all[0] != 0 || all.size() == 1 ? all[0] : all[1]] = true;
  }

  FaultDraw take() {
    draw_starts();
    draw_endings();
    draw_machines();
    draw_values();
    draw_links();
    draw_reach();
    std::stable_sort(draw_.incidents.begin(), draw_.incidents.end(),
                     [](const Incident& a, const Incident& b) { return beginning(a) < beginning(b); });
    return std::move(draw_);
  }

 private:
  std::vector<std::uint32_t> shuffled_machines() {
    std::vector<std::uint32_t> all(setting_.machines);
    std::iota(all.begin(), all.end(), 0U);
    random_.shuffle(std::span(all));
    return all;
  }

  void add(Incident incident) { draw_.incidents.push_back(std::move(incident)); }
  void stream(std::uint64_t purpose) { random_ = base_.split(purpose); }
  double minutes() const { return to_seconds(setting_.to - setting_.from) / 60; }
  Instant when() {
    return setting_.from + from_seconds(random_.uniform(0, to_seconds(setting_.to - setting_.from)));
  }
  Duration length(const Faults::Range& range) {  // uniform in the logarithm
    const double least = std::log(to_seconds(range.least)), most = std::log(to_seconds(range.most));
    return from_seconds(std::exp(random_.uniform(least, most)));
  }
  Instant until(Instant from, const Faults::Range& range) {
    return std::min(from + length(range), setting_.to);
  }
  // A Poisson number of events with the expected number `rate` per minute.
  int count(double rate) {
    int n = 0;
    for (double t = random_.exponential(); t < rate * minutes(); t += random_.exponential()) ++n;
    return n;
  }
  std::uint32_t machine() { return static_cast<std::uint32_t>(random_.below(setting_.machines)); }
  std::uint32_t other(std::uint32_t than) {
    const auto drawn = static_cast<std::uint32_t>(random_.below(setting_.machines - 1));
    return drawn < than ? drawn : drawn + 1;
  }
  template <class Make>
  void for_machines(std::uint64_t purpose, double rate, Make make) {
    stream(purpose);
    for (std::uint32_t i = 0; i < setting_.machines; ++i) {
      for (int k = count(rate); k > 0; --k) make(i);
    }
  }
  template <class Make>
  void for_swarm(std::uint64_t purpose, double rate, Make make) {
    stream(purpose);
    if (setting_.machines < 2) return;
    for (int k = count(rate); k > 0; --k) make();
  }

  void draw_starts() {
    stream(1);
    for (std::uint32_t i = 0; i < setting_.machines; ++i) {
      if (pillar_[i] || !random_.chance(faults_.instances.late_share)) continue;
      draw_.late[i] = when();
    }
  }

  // A machine crashes or leaves, possibly comes back after a while, crashes or leaves again, and so on.
  void draw_endings() {
    stream(2);
    const double rate = faults_.instances.crashes + faults_.instances.leaves;
    if (rate <= 0) return;
    for (std::uint32_t i = 0; i < setting_.machines; ++i) {
      if (pillar_[i]) continue;
      Instant at = draw_.late[i].value_or(setting_.from);
      for (;;) {
        at = at + std::chrono::milliseconds(100) + from_seconds(random_.exponential() * 60 / rate);
        if (at >= setting_.to) break;
        std::optional<Instant> back;
        if (random_.chance(faults_.instances.back_share)) back = until(at, faults_.instances.down);
        if (random_.uniform(0, rate) < faults_.instances.crashes) {
          const bool silent = random_.chance(faults_.instances.silent_share);
          add(Crash{i, at, silent, back, random_.chance(faults_.instances.cached_share)});
        } else {
          // The instance announces its departure first, which may take a while.
          if (back) back = std::max(*back, at + std::chrono::seconds(3));
          add(Departure{i, at, back});
        }
        if (!back) break;
        at = *back;
      }
    }
  }

  void draw_machines() {
    for_machines(3, faults_.machines.pauses, [&](std::uint32_t i) {
      const Instant from = when();
      add(Pause{i, from, until(from, faults_.machines.pause)});
    });
    for_machines(4, faults_.machines.slownesses, [&](std::uint32_t i) {
      const Instant from = when();
      add(Slow{i, random_.uniform(1.5, faults_.machines.slow_factor_most), from,
               until(from, faults_.machines.slow)});
    });
    for_machines(5, faults_.machines.slow_disks, [&](std::uint32_t i) {
      const Instant from = when();
      add(SlowDisk{i, from, until(from, faults_.machines.slow), length(faults_.machines.disk_access)});
    });
    stream(6);
    for (std::uint32_t i = 0; i < setting_.machines && faults_.machines.drift_most > 0; ++i) {
      const double rate = faults_.machines.drift_most * std::pow(10, random_.uniform(-1, 0));
      add(Drift{i, random_.chance(0.5) ? rate : -rate});
    }
  }

  void draw_values() {
    for_machines(7, faults_.values.poisonings, [&](std::uint32_t i) {
      const Instant from = when();
      Poison poison{i, from, until(from, faults_.values.poison), random_.uniform(0.05, 1)};
      if (random_.chance(faults_.values.lie_share))
        poison.kind =
            static_cast<PoisonKind>(static_cast<std::uint64_t>(PoisonKind::noise) + random_.below(3));
      add(poison);
    });
    for_machines(9, faults_.values.losses, [&](std::uint32_t i) {
      add(Damage{i, when(), random_.chance(0.15)});
    });
    stream(10);
    const std::uint32_t liar = machine();
    for (int k = count(faults_.values.lies); k > 0 && setting_.machines > 1; --k) {
      const Instant from = when();
      const LieKind kind =
          random_.chance(0.3) ? LieKind::any : static_cast<LieKind>(1 + random_.below(kLieKinds - 1));
      add(Lies{liar, from, until(from, faults_.values.poison),
               length({std::chrono::milliseconds(20), std::chrono::seconds(1)}), kind});
    }
    stream(11);
    for (std::uint32_t i = 0; i < setting_.machines && faults_.values.offers > 0; ++i) {
      if (!random_.chance(faults_.values.offers_share)) continue;
      for (int k = count(faults_.values.offers); k > 0; --k) {
        const Instant from = when();
        add(Lies{i, from, until(from, faults_.values.poison),
                 length({std::chrono::milliseconds(5), std::chrono::milliseconds(200)}), LieKind::offers});
      }
    }
    stream(12);
    const std::uint32_t others = setting_.machines - std::min(setting_.machines, setting_.reachable);
    const auto mute = static_cast<std::uint32_t>(setting_.reachable + random_.below(std::max(1U, others)));
    for (int k = count(faults_.values.silences); k > 0 && others > 0; --k) {
      const Instant from = when();
      const Instant to = until(from, {std::chrono::seconds(5), std::chrono::seconds(30)});
      add(Lies{mute, from, to, to - from, LieKind::silence});
    }
    for_swarm(8, faults_.values.mutations > 0 ? 2 : 0, [&] {
      const Instant from = when();
      add(Mutation{from, until(from, faults_.machines.slow), faults_.values.mutations});
    });
  }

  void draw_links() {
    for_swarm(20, faults_.links.partitions, [&] {
      std::vector<std::uint32_t> all = shuffled_machines();
      all.resize(1 + random_.below(setting_.machines - 1));
      std::sort(all.begin(), all.end());
      const Instant from = when();
      Partition partition{std::move(all), from, until(from, faults_.links.partition)};
      if (random_.chance(faults_.links.one_way_share))
        (random_.chance(0.5) ? partition.inwards : partition.outwards) = false;
      add(std::move(partition));
    });
    for_swarm(21, faults_.links.cuts * setting_.machines, [&] {
      const Instant from = when();
      const std::uint32_t a = machine();
      const std::uint32_t b = other(a);
      add(Cut{a, b, from, until(from, faults_.links.partition),
              !random_.chance(faults_.links.one_way_share)});
    });
    for_swarm(22, faults_.links.clogs * setting_.machines, [&] {
      const Instant from = when();
      const std::uint32_t a = machine();
      const double factor = std::pow(10, random_.uniform(2, 6));
      add(Clog{a, other(a), from, until(from, faults_.links.clog), factor});
    });
    for_swarm(23, faults_.links.resets * setting_.machines, [&] {
      const std::uint32_t a = machine();
      add(Reset{a, other(a), when()});
    });
    for_swarm(24, faults_.links.half_opens * setting_.machines, [&] {
      const std::uint32_t a = machine();
      add(HalfOpen{a, other(a), when()});
    });
    for_swarm(25, faults_.rewirings, [&] {
      const std::uint32_t asked = machine();
      add(TopologyChange{asked, when(), random_topology(random_)});
    });
  }

  // A machine that loses its device ends for good, and peers behind routers reach one another only while
  // another machine runs.
  void keep_reachable_running() {
    for (Incident& incident : draw_.incidents) {
      auto* const loss = std::get_if<Damage>(&incident);
      if (loss != nullptr && fixed_[loss->machine]) loss->device = false;
    }
  }

  void draw_reach() {
    const Faults::Reach& reach = faults_.reach;
    stream(30);
    if (!random_.chance(reach.share)) return;
    const double routers = random_.uniform(0, reach.routers);
    for (std::uint32_t i = 0; i < setting_.machines; ++i) {
      const bool is_behind = !fixed_[i] && random_.chance(routers);
      const bool knows = random_.chance(0.5);
      if (is_behind) add(Router{i, knows});
      hidden_.push_back(is_behind);
    }
    keep_reachable_running();
    std::uint64_t relays = reach.routers > 0 ? random_.below(4) : 0;
    for (const std::uint32_t i : shuffled_machines()) {
      if (hidden_[i] || relays == 0) continue;
      --relays;
      add(Relaying{i, static_cast<std::uint64_t>(std::pow(10, random_.uniform(6, 8)))});
    }
    for_machines(31, reach.moves, [&](std::uint32_t i) {
      const Instant at = when();
      if (!fixed_[i]) add(Move{i, at});
    });
    for_machines(32, reach.resolver_failures, [&](std::uint32_t i) {
      const Instant from = when();
      add(NoNames{i, from, until(from, reach.failure)});
    });
  }

  Random base_, random_;
  const Faults& faults_;
  FaultSetting setting_;
  std::vector<bool> pillar_;
  std::vector<bool> fixed_;   // can be dialed, always at the same address
  std::vector<bool> hidden_;  // behind a router
  FaultDraw draw_;
};

constexpr Faults::Links kUnreliable{
    .cuts = 1.5, .clogs = 1, .resets = 6, .half_opens = 2, .tail_chance = 0.002};

struct NamedFaults {
  std::string_view name;
  Faults faults;
};
constexpr std::array<NamedFaults, 17> kNamed = {{
    {"none", {}},
    {"all",
     {.instances = {.crashes = 0.7, .leaves = 0.5, .late_share = 0.25},
      .machines = {.pauses = 0.7, .slownesses = 0.5, .slow_disks = 0.4, .drift_most = 1e-2},
      .values = {.poisonings = 0.4, .lie_share = 0.2, .losses = 0.15, .lies = 1.5, .mutations = 0.005},
      .links = {.partitions = 1.5,
                .cuts = kUnreliable.cuts,
                .clogs = kUnreliable.clogs,
                .resets = kUnreliable.resets,
                .half_opens = kUnreliable.half_opens,
                .tail_chance = kUnreliable.tail_chance},
      .reach = {.share = 0.3, .routers = 0.8, .moves = 0.5, .resolver_failures = 0.5},
      .rewirings = 1}},
    {"crash", {.instances = {.crashes = 2}}},
    {"pause", {.machines = {.pauses = 3}}},
    {"partition", {.links = {.partitions = 4}}},
    {"links", {.links = kUnreliable}},
    {"churn", {.instances = {.crashes = 1, .leaves = 2, .back_share = 0.85, .late_share = 0.4}}},
    {"slow", {.instances = {.crashes = 0.5}, .machines = {.slownesses = 2, .slow_disks = 1}}},
    {"poison",
     {.instances = {.late_share = 0.3},
      .values = {.poisonings = 1.5, .lie_share = 0.25, .losses = 0.5, .mutations = 0.01}}},
    {"lies", {.instances = {.crashes = 0.4, .late_share = 0.3}, .values = {.lies = 8}}},
    {"offers",
     {.instances = {.crashes = 0.4, .late_share = 0.3}, .values = {.offers = 6}, .links = {.resets = 1}}},
    {"silence", {.values = {.silences = 2}}},
    {"drift", {.machines = {.drift_most = 1e-2}}},
    {"rewire",
     {.instances = {.crashes = 0.5, .late_share = 0.3}, .links = {.partitions = 1}, .rewirings = 6}},
    {"routers", {.instances = {.crashes = 0.7, .late_share = 0.3}, .reach = {.routers = 0.9}}},
    {"moves", {.instances = {.crashes = 0.3, .late_share = 0.3}, .reach = {.routers = 0.4, .moves = 1.5}}},
    {"resolver", {.instances = {.crashes = 0.7}, .links = {.resets = 3}, .reach = {.resolver_failures = 3}}},
}};

constexpr std::array<const char*, 7> kPoisonNames = {"any",   "nan",       "inf",   "huge",
                                                     "noise", "sign-flip", "frozen"};

}  // namespace

const char* name(LieKind kind) {
  static constexpr std::array<const char*, kLieKinds + 2> kNames = {
      "any",   "left",      "failed",   "suspect", "moved",    "finished", "progress",
      "boast", "strangers", "topology", "answers", "conflict", "offers",   "silence"};
  return kNames.at(static_cast<std::size_t>(kind));
}

const char* name(PoisonKind kind) { return kPoisonNames.at(static_cast<std::size_t>(kind)); }

std::optional<PoisonKind> poison_named(std::string_view name) {
  for (std::size_t k = 0; k < kPoisonNames.size(); ++k)
    if (kPoisonNames[k] == name) return static_cast<PoisonKind>(k);
  return std::nullopt;
}

Instant beginning(const Incident& incident) {
  const auto of = [](const auto& it) {
    if constexpr (requires { it.from; }) return it.from;
    if constexpr (requires { it.at; }) return it.at;
    return Instant{};  // a drift
  };
  return std::visit(of, incident);
}

std::string sentence(const Incident& incident, const std::vector<std::string>& names) {
  return std::visit(Teller{names}, incident) + ".";
}

const std::vector<std::string>& Faults::names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const NamedFaults& it : kNamed) names.emplace_back(it.name);
    return names;
  }();
  return kNames;
}

std::optional<Faults> Faults::named(std::string_view name) {
  const auto found =
      std::find_if(kNamed.begin(), kNamed.end(), [name](const NamedFaults& it) { return it.name == name; });
  return found == kNamed.end() ? std::nullopt : std::optional(found->faults);
}

std::string random_topology(Random& random) {
  const auto all = topologies::names();
  for (;;) {
    const topologies::TopologyEntry& drawn = all[random.below(all.size())];
    if (!drawn.placeholder) return drawn.name;
  }
}

FaultDraw draw(std::uint64_t seed, const Faults& faults, const FaultSetting& setting) {
  return Drawer(seed, faults, setting).take();
}

}  // namespace starling::lab
