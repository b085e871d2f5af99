// What can go wrong in a virtual world. `Faults` says how often and how badly, `draw` turns that into a
// schedule of concrete incidents, each of which can be said in a sentence; the world plays the schedule. The
// same seed draws the same schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "training/experiment/link_shape.h"
#include "training/experiment/slowness.h"

namespace starling::lab {

using training::LinkShape;

struct Interval {
  Instant from, to;
  bool covers(Instant at) const { return from <= at && at < to; }
};

// ---- incidents: machines are meant by index ----

struct Crash {
  std::uint32_t machine;
  Instant at;
  bool silent = false;            // power loss: connections are not even refused afterwards
  std::optional<Instant> back{};  // a new instance starts then
  bool cached = false;            // it remembers the addresses of members
};
struct Leave {
  std::uint32_t machine;
  Instant at;
  std::optional<Instant> back{};
  bool comes_back = false;  // also where it has not quite gone by then: as soon as it has
};
struct Pause {  // nothing happens on the machine; what arrives waits
  std::uint32_t machine;
  Instant from, to;
};
struct Slow {  // its steps take longer
  std::uint32_t machine;
  training::Slowness factor;
  Instant from, to;
  Random chance{0};  // where the factor is left to it
};
struct SlowDisk {  // preparing, and writing the cache, take so long
  std::uint32_t machine;
  Instant from, to;
  Duration access;
};
struct Drift {  // its clock runs at 1 + rate of true time, always
  std::uint32_t machine;
  double rate;
};
// What a poisoned machine sends. The first four hold values that may not touch a replica, whatever the rule; the
// others are lies that only a rule for liars withstands.
enum class PoisonKind : std::uint8_t {
  any,  // one of the next three, chunk by chunk
  nan,
  infinity,
  huge,       // 1e38
  noise,      // standard normal
  sign_flip,  // its own, negated
  frozen,     // its first parameters, for ever
};
const char* name(PoisonKind kind);  // "sign-flip"
std::optional<PoisonKind> poison_named(std::string_view name);

struct Poison {  // chunks it sends are spoiled
  std::uint32_t machine;
  Instant from, to;
  double chance;  // of each chunk
  PoisonKind kind = PoisonKind::any;
};
struct Loss {  // a few of its own parameters become NaN, or all are gone with the device that held them
  std::uint32_t machine;
  Instant at;
  bool device = false;
};
struct Cut {  // nothing gets from one machine to another
  std::uint32_t source, target;
  Instant from, to;
  bool both_ways = true;
};
struct Partition {  // no connection crosses the border around some machines
  std::vector<std::uint32_t> island;
  Instant from, to;
  bool outwards = true, inwards = true;  // which way nothing gets
};
struct Clog {  // the bandwidth between two machines is divided
  std::uint32_t a, b;
  Instant from, to;
  double factor;
};
struct PoorLinks {  // all links of some machines, both ways and each for itself, or those to some others
  std::vector<std::uint32_t> machines;
  Instant from, to;
  LinkShape shape;
  std::vector<std::uint32_t> others{};
};
struct Reset {  // their connections break, and both learn it
  std::uint32_t a, b;
  Instant at;
};
struct HalfOpen {  // their connections break, and one learns it
  std::uint32_t knows, deaf;
  Instant at;
};
struct Rewiring {  // a user asks a machine to have the swarm follow another topology
  std::uint32_t machine;
  Instant at;
  std::string topology;
};
struct Mutation {  // control frames, anyone's, have a bit flipped under way
  Instant from, to;
  double chance;  // of each
};

using Incident = std::variant<Crash, Leave, Pause, Slow, SlowDisk, Drift, Poison, Loss, Cut, Partition, Clog, PoorLinks,
                              Reset, HalfOpen, Rewiring, Mutation>;

Instant beginning(const Incident& incident);
// "At 12.304 s p3 loses its power; at 18.100 s it is back, with its cache of addresses."
std::string sentence(const Incident& incident, const std::vector<std::string>& names);

// ---- rates ----

// Frequencies are expected numbers in a minute: of each machine, or of the whole swarm where it says so.
// Lengths are drawn from a range.
struct Faults {
  struct Range {
    Duration least, most;
  };
  double crashes = 0;
  double silent_share = 0.5;  // of crashes: power losses
  double back_share = 0.75;   // of crashes and leaves: a new instance follows
  double cached_share = 0.7;  // of those after a crash
  Range down{std::chrono::milliseconds(300), std::chrono::seconds(15)};
  double leaves = 0;
  double late_share = 0;  // of machines: start late

  double pauses = 0;
  Range pause{std::chrono::milliseconds(200), std::chrono::seconds(12)};
  double slownesses = 0;
  double slow_factor_most = 20;
  Range slow{std::chrono::seconds(2), std::chrono::seconds(20)};
  double slow_disks = 0;
  Range disk_access{std::chrono::milliseconds(100), std::chrono::seconds(4)};
  double drift_most = 0;  // |rate| of every machine's clock

  double rewirings = 0;   // of the swarm

  double poisonings = 0;
  double lie_share = 0;  // of them: lies
  double losses = 0;     // of a machine's own parameters
  Range poison{std::chrono::seconds(2), std::chrono::seconds(15)};
  double mutations = 0;  // chance of each control frame, in stretches

  double partitions = 0;  // of the swarm
  Range partition{std::chrono::milliseconds(300), std::chrono::seconds(20)};
  double one_way_share = 0.3;
  double cuts = 0;
  double clogs = 0;
  Range clog{std::chrono::seconds(1), std::chrono::seconds(15)};
  double resets = 0;
  double half_opens = 0;
  double tail_chance = 0;  // of packets whose travel takes long (lab/virtual_network.h)

  // "none", "all", "crash", "pause", "partition", "links", "churn", "slow", "poison", "drift", "rewire".
  static std::optional<Faults> named(std::string_view name);
  static const std::vector<std::string>& names();
};

// What the draw needs to know of the world.
struct FaultSetting {
  std::uint32_t machines;
  Instant from, to;  // of the faults; whatever lasts is over at its end
};

struct FaultDraw {
  std::vector<Incident> incidents;           // in the order of their beginnings
  std::vector<std::optional<Instant>> late;  // per machine: when it starts, of those that start late
};

// The name of one of all topologies that need nothing from outside.
std::string random_topology(Random& random);

// Two machines, drawn too, start in time and neither crash nor leave, so that the run's parameters survive.
FaultDraw draw(std::uint64_t seed, const Faults& faults, const FaultSetting& setting);

// By how much a machine's step with this number takes longer that begins at `at`.
double slowness_of_step(std::span<const Slow> slow, Instant at, std::uint64_t step);

// The end of the pauses that cover `at`, or `at`. REQUIRES: they are in the order of their beginnings.
Instant awake_at(std::span<const Interval> pauses, Instant at);

}  // namespace starling::lab
