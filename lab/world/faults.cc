#include "lab/world/faults.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "topologies/topology.h"

namespace starling::lab {

namespace {

std::string at_text(Instant at) {
  if (at == kNever) return "the end";
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", to_seconds(at.since_start));
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string span(Instant from, Instant to) {
  return "From " + at_text(from) + " to " + at_text(to) + " ";
}

std::string again(const std::optional<Instant>& back) {
  return back ? "; at " + at_text(*back) + " it is back as a new instance" : std::string();
}

struct Teller {
  const std::vector<std::string>& names;

  const std::string& name(std::uint32_t machine) const { return names.at(machine); }

  std::string list(const std::vector<std::uint32_t>& machines) const {
    std::string text;
    for (const std::uint32_t machine : machines) text += (text.empty() ? "" : ", ") + name(machine);
    return text;
  }

  std::string operator()(const Crash& c) const {
    std::string text = "At " + at_text(c.at) + " " + name(c.machine) +
                       (c.silent ? " loses its power" : " crashes") + again(c.back);
    if (c.back) text += c.cached ? ", with its cache of addresses" : ", without a cache";
    return text;
  }
  std::string operator()(const Leave& l) const {
    return "At " + at_text(l.at) + " " + name(l.machine) + " is asked to leave" + again(l.back);
  }
  std::string operator()(const Pause& p) const {
    return span(p.from, p.to) + "nothing happens on " + name(p.machine);
  }
  std::string operator()(const Slow& s) const {
    const bool fixed = s.factor.factor() > 0;
    return span(s.from, s.to) + "steps of " + name(s.machine) + " take " +
           (fixed ? number(s.factor.factor()) + " times as long" : "longer by chance, " + s.factor.text());
  }
  std::string operator()(const SlowDisk& d) const {
    return span(d.from, d.to) + "the disk of " + name(d.machine) + " takes " + number(to_seconds(d.access)) +
           " s for what it should do at once";
  }
  std::string operator()(const Drift& d) const {
    return "The clock of " + name(d.machine) + " runs at " + std::to_string(1 + d.rate) + " of true time";
  }
  std::string operator()(const Poison& p) const {
    return span(p.from, p.to) + number(100 * p.chance) + " % of the chunks that " + name(p.machine) +
           " sends are spoiled (" + lab::name(p.kind) + ")";
  }
  std::string operator()(const Loss& l) const {
    return "At " + at_text(l.at) + (l.device ? " the device of " : " parameters of ") + name(l.machine) +
           (l.device ? " is lost" : " become NaN");
  }
  std::string operator()(const Cut& c) const {
    return span(c.from, c.to) + "nothing gets from " + name(c.source) + " to " + name(c.target) +
           (c.both_ways ? ", nor back" : "");
  }
  std::string operator()(const Partition& p) const {
    std::string island;
    for (const std::uint32_t machine : p.island) island += (island.empty() ? "" : ", ") + name(machine);
    return span(p.from, p.to) +
           (p.outwards && p.inwards ? "nothing gets into or out of {"
                                    : (p.outwards ? "nothing gets out of {" : "nothing gets into {")) +
           island + "}";
  }
  std::string operator()(const Clog& c) const {
    return span(c.from, c.to) + "the bandwidth between " + name(c.a) + " and " + name(c.b) +
           " is divided by " + number(c.factor);
  }
  std::string operator()(const PoorLinks& p) const {
    std::string text = span(p.from, p.to) + "the links of " + list(p.machines) +
                       (p.others.empty() ? "" : " to " + list(p.others)) + " have";
    if (p.shape.latency) text += " a latency of " + number(to_seconds(*p.shape.latency)) + " s,";
    if (p.shape.bandwidth) text += " a bandwidth of " + number(*p.shape.bandwidth) + " bit/s,";
    return text + " and lose " + number(100 * p.shape.drop) + " % of what is sent at first";
  }
  std::string operator()(const Reset& r) const {
    return "At " + at_text(r.at) + " the connections between " + name(r.a) + " and " + name(r.b) + " break";
  }
  std::string operator()(const HalfOpen& h) const {
    return "At " + at_text(h.at) + " the connections between " + name(h.knows) + " and " + name(h.deaf) +
           " break, and only " + name(h.knows) + " learns it";
  }
  std::string operator()(const Rewiring& r) const {
    return "At " + at_text(r.at) + " a user asks " + name(r.machine) + " for the topology " + r.topology;
  }
  std::string operator()(const Mutation& m) const {
    return span(m.from, m.to) + number(100 * m.chance) + " % of all control frames have a bit flipped";
  }
};

struct Beginning {
  Instant operator()(const Crash& c) const { return c.at; }
  Instant operator()(const Leave& l) const { return l.at; }
  Instant operator()(const Drift&) const { return Instant{}; }
  Instant operator()(const Loss& l) const { return l.at; }
  Instant operator()(const Reset& r) const { return r.at; }
  Instant operator()(const HalfOpen& h) const { return h.at; }
  Instant operator()(const Rewiring& r) const { return r.at; }
  template <class Lasting>
  Instant operator()(const Lasting& l) const {
    return l.from;
  }
};

// Draws incidents one kind after the other, each from a stream of its own, so that more of one kind shifts no
// other.
class Drawer {
 public:
  Drawer(std::uint64_t seed, const Faults& faults, const FaultSetting& setting)
      : base_(Random(seed).split(0xfa17)), random_(base_), faults_(faults), setting_(setting) {
    draw_.late.resize(setting.machines);
    pick_pillars();
  }

  FaultDraw take() {
    draw_starts();
    draw_endings();
    draw_machines();
    draw_links();
    std::stable_sort(draw_.incidents.begin(), draw_.incidents.end(),
                     [](const Incident& a, const Incident& b) { return beginning(a) < beginning(b); });
    return std::move(draw_);
  }

 private:
  void pick_pillars() {
    pillar_.assign(setting_.machines, false);
    std::vector<std::uint32_t> all(setting_.machines);
    for (std::uint32_t i = 0; i < setting_.machines; ++i) all[i] = i;
    random_.shuffle(std::span(all));
    for (std::size_t i = 0; i < std::min<std::size_t>(2, all.size()); ++i) pillar_[all[i]] = true;
  }

  void stream(std::uint64_t purpose) { random_ = base_.split(purpose); }
  double minutes() const { return to_seconds(setting_.to - setting_.from) / 60; }
  Instant when() {
    return setting_.from + from_seconds(random_.uniform(0, to_seconds(setting_.to - setting_.from)));
  }
  Duration length(const Faults::Range& range) {  // short ones are more frequent: uniform in the logarithm
    const double least = std::log(to_seconds(range.least)), most = std::log(to_seconds(range.most));
    return from_seconds(std::exp(random_.uniform(least, most)));
  }
  Instant until(Instant from, const Faults::Range& range) {
    return std::min(from + length(range), setting_.to);
  }
  // How many of something that is expected `rate` times a minute (Poisson).
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
      if (pillar_[i] || !random_.chance(faults_.late_share)) continue;
      draw_.late[i] = when();
    }
  }

  // A machine crashes or leaves, is away for a while, comes back or does not, and so on.
  void draw_endings() {
    stream(2);
    const double rate = faults_.crashes + faults_.leaves;
    if (rate <= 0) return;
    for (std::uint32_t i = 0; i < setting_.machines; ++i) {
      if (pillar_[i]) continue;
      Instant at = draw_.late[i].value_or(setting_.from);
      for (;;) {
        at = at + std::chrono::milliseconds(100) + from_seconds(random_.exponential() * 60 / rate);
        if (at >= setting_.to) break;
        std::optional<Instant> back;
        if (random_.chance(faults_.back_share)) back = until(at, faults_.down);
        if (random_.uniform(0, rate) < faults_.crashes) {
          const bool silent = random_.chance(faults_.silent_share);
          draw_.incidents.push_back(Crash{i, at, silent, back, random_.chance(faults_.cached_share)});
        } else {
          // It says goodbye first, and that may take a while.
          if (back) back = std::max(*back, at + std::chrono::seconds(3));
          draw_.incidents.push_back(Leave{i, at, back});
        }
        if (!back) break;
        at = *back;
      }
    }
  }

  void draw_machines() {
    for_machines(3, faults_.pauses, [&](std::uint32_t i) {
      const Instant from = when();
      draw_.incidents.push_back(Pause{i, from, until(from, faults_.pause)});
    });
    for_machines(4, faults_.slownesses, [&](std::uint32_t i) {
      const Instant from = when();
      draw_.incidents.push_back(
          Slow{i, random_.uniform(1.5, faults_.slow_factor_most), from, until(from, faults_.slow)});
    });
    for_machines(5, faults_.slow_disks, [&](std::uint32_t i) {
      const Instant from = when();
      draw_.incidents.push_back(SlowDisk{i, from, until(from, faults_.slow), length(faults_.disk_access)});
    });
    stream(6);
    for (std::uint32_t i = 0; i < setting_.machines && faults_.drift_most > 0; ++i) {
      const double rate = faults_.drift_most * std::pow(10, random_.uniform(-1, 0));
      draw_.incidents.push_back(Drift{i, random_.chance(0.5) ? rate : -rate});
    }
    for_machines(7, faults_.poisonings, [&](std::uint32_t i) {
      const Instant from = when();
      Poison poison{i, from, until(from, faults_.poison), random_.uniform(0.05, 1)};
      if (random_.chance(faults_.lie_share))
        poison.kind = static_cast<PoisonKind>(static_cast<std::uint64_t>(PoisonKind::noise) + random_.below(3));
      draw_.incidents.push_back(poison);
    });
    for_machines(9, faults_.losses, [&](std::uint32_t i) { draw_.incidents.push_back(Loss{i, when(), random_.chance(0.15)}); });
    for_swarm(8, faults_.mutations > 0 ? 2 : 0, [&] {
      const Instant from = when();
      draw_.incidents.push_back(Mutation{from, until(from, faults_.slow), faults_.mutations});
    });
  }

  void draw_links() {
    for_swarm(20, faults_.partitions, [&] {
      std::vector<std::uint32_t> all(setting_.machines);
      for (std::uint32_t i = 0; i < setting_.machines; ++i) all[i] = i;
      random_.shuffle(std::span(all));
      all.resize(1 + random_.below(setting_.machines - 1));
      std::sort(all.begin(), all.end());
      const Instant from = when();
      Partition partition{std::move(all), from, until(from, faults_.partition)};
      if (random_.chance(faults_.one_way_share))
        (random_.chance(0.5) ? partition.inwards : partition.outwards) = false;
      draw_.incidents.push_back(std::move(partition));
    });
    for_swarm(21, faults_.cuts * setting_.machines, [&] {
      const Instant from = when();
      const std::uint32_t a = machine();
      const std::uint32_t b = other(a);
      draw_.incidents.push_back(
          Cut{a, b, from, until(from, faults_.partition), !random_.chance(faults_.one_way_share)});
    });
    for_swarm(22, faults_.clogs * setting_.machines, [&] {
      const Instant from = when();
      const std::uint32_t a = machine();
      const double factor = std::pow(10, random_.uniform(2, 6));
      draw_.incidents.push_back(Clog{a, other(a), from, until(from, faults_.clog), factor});
    });
    for_swarm(23, faults_.resets * setting_.machines, [&] {
      const std::uint32_t a = machine();
      draw_.incidents.push_back(Reset{a, other(a), when()});
    });
    for_swarm(24, faults_.half_opens * setting_.machines, [&] {
      const std::uint32_t a = machine();
      draw_.incidents.push_back(HalfOpen{a, other(a), when()});
    });
    for_swarm(25, faults_.rewirings, [&] {
      const std::uint32_t asked = machine();
      draw_.incidents.push_back(Rewiring{asked, when(), random_topology(random_)});
    });
  }

  Random base_, random_;
  const Faults& faults_;
  FaultSetting setting_;
  std::vector<bool> pillar_;
  FaultDraw draw_;
};

void add_links(Faults& f) {
  f.cuts = 1.5;
  f.clogs = 1;
  f.resets = 6;
  f.half_opens = 2;
  f.tail_chance = 0.002;
}

}  // namespace

namespace {

constexpr std::array<const char*, 7> kPoisonNames = {"any",   "nan",       "inf",   "huge",
                                                     "noise", "sign-flip", "frozen"};

}  // namespace

const char* name(PoisonKind kind) {
  return kPoisonNames.at(static_cast<std::size_t>(kind));
}

std::optional<PoisonKind> poison_named(std::string_view name) {
  for (std::size_t k = 0; k < kPoisonNames.size(); ++k)
    if (kPoisonNames[k] == name) return static_cast<PoisonKind>(k);
  return std::nullopt;
}

Instant beginning(const Incident& incident) {
  return std::visit(Beginning{}, incident);
}

std::string sentence(const Incident& incident, const std::vector<std::string>& names) {
  return std::visit(Teller{names}, incident) + ".";
}

const std::vector<std::string>& Faults::names() {
  static const std::vector<std::string> kNames = {"none",  "all",   "crash", "pause",  "partition",
                                                  "links", "churn", "slow",  "poison", "drift", "rewire"};
  return kNames;
}

std::optional<Faults> Faults::named(std::string_view name) {
  Faults f;
  if (name == "none") return f;
  if (name == "crash") {
    f.crashes = 2;
    return f;
  }
  if (name == "pause") {
    f.pauses = 3;
    return f;
  }
  if (name == "partition") {
    f.partitions = 4;
    return f;
  }
  if (name == "links") {
    add_links(f);
    return f;
  }
  if (name == "churn") {
    f.crashes = 1;
    f.leaves = 2;
    f.late_share = 0.4;
    f.back_share = 0.85;
    return f;
  }
  if (name == "slow") {
    f.slownesses = 2;
    f.slow_disks = 1;
    f.crashes = 0.5;
    return f;
  }
  if (name == "poison") {
    f.poisonings = 1.5;
    f.lie_share = 0.25;
    f.losses = 0.5;
    f.mutations = 0.01;
    f.late_share = 0.3;
    return f;
  }
  if (name == "drift") {
    f.drift_most = 1e-2;
    return f;
  }
  if (name == "rewire") {
    f.rewirings = 6;
    f.partitions = 1;
    f.crashes = 0.5;
    f.late_share = 0.3;
    return f;
  }
  if (name == "all") {
    add_links(f);
    f.crashes = 0.7;
    f.leaves = 0.5;
    f.late_share = 0.25;
    f.pauses = 0.7;
    f.partitions = 1.5;
    f.slownesses = 0.5;
    f.slow_disks = 0.4;
    f.poisonings = 0.4;
    f.lie_share = 0.2;
    f.losses = 0.15;
    f.mutations = 0.005;
    f.rewirings = 1;
    f.drift_most = 1e-2;
    return f;
  }
  return std::nullopt;
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

double slowness_of_step(std::span<const Slow> slow, Instant at, std::uint64_t step) {
  double factor = 1;
  for (const Slow& s : slow) {
    if (s.from <= at && at < s.to) factor *= s.factor.of_step(s.chance, step);
  }
  return factor;
}

Instant awake_at(std::span<const Interval> pauses, Instant at) {
  for (const Interval& pause : pauses) {
    if (pause.covers(at)) at = pause.to;
  }
  return at;
}

}  // namespace starling::lab
