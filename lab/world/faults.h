// What can go wrong in a virtual world. `Faults` has the frequencies; draw() turns them into a schedule of
// incidents, which the world plays. The same seed draws the same schedule.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "training/runs/experiment/fault.h"
#include "training/runs/experiment/slowness.h"

namespace starling::lab {

using training::LinkChange;

struct TimeRange {
  Instant from, to;
  bool covers(Instant at) const { return from <= at && at < to; }
};

// ---- incidents; machines are given by index ----

struct Crash {
  std::uint32_t machine;
  Instant at;
  bool silent = false;            // power loss: the machine does not even refuse connections afterwards
  std::optional<Instant> back{};  // when a new instance starts
  bool cached = false;            // the new instance has the addresses of members
};
struct Departure {
  std::uint32_t machine;
  Instant at;
  std::optional<Instant> back{};
  bool comes_back = false;  // if the instance is still up at `back`, the new one starts when it has ended
};
struct Pause {  // nothing happens on the machine; arriving messages wait
  std::uint32_t machine;
  Instant from, to;
};
struct Slow {  // steps take longer
  std::uint32_t machine;
  training::Slowness factor;
  Instant from, to;
  Random chance{0};  // draws a random factor
};
struct SlowDisk {  // preparing takes `access` longer, and so does writing the cache
  std::uint32_t machine;
  Instant from, to;
  Duration access;
};
struct Drift {  // the clock always runs at 1 + rate of true time
  std::uint32_t machine;
  double rate;
};
// What a poisoned machine sends. The first four contain values that no rule accepts. The others are lies that
// only a robust rule withstands.
enum class PoisonKind : std::uint8_t {
  any,  // one of the next three, drawn for each chunk
  nan,
  infinity,
  huge,       // 1e38
  noise,      // standard normal
  sign_flip,  // the machine's own values, negated
  frozen,     // the machine's first parameters, always
};
const char* name(PoisonKind kind);  // "sign-flip"
std::optional<PoisonKind> poison_named(std::string_view name);

struct Poison {  // the machine sends wrong parameters
  std::uint32_t machine;
  Instant from, to;
  double chance;  // of each chunk
  PoisonKind kind = PoisonKind::any;
};
// What a lying member says. All but `progress` of itself are lies that others must not believe.
enum class LieKind : std::uint8_t {
  any,        // one of the others, drawn for each lie
  left,       // all others have left
  failed,     // all others have failed
  suspect,    // all others are suspect
  moved,      // all others listen elsewhere
  finished,   // all others have finished
  progress,   // all others consumed an impossible number of samples
  boast,      // it consumed an impossible number itself
  strangers,  // members that do not exist
  topology,   // topologies that others set, or of an impossible revision
  answers,    // that others have answered
  conflict,   // that another peer advertises the receiver's address
  offers,     // exchanges that it never makes; never drawn as one of `any`
  silence,    // that it trains, and it takes part in no exchange; never drawn as one of `any`
};
inline constexpr std::size_t kLieKinds = 12;  // without `offers` and `silence`
const char* name(LieKind kind);

struct Lies {  // a member sends lies
  std::uint32_t machine;
  Instant from, to;
  Duration every;  // between two
  LieKind kind = LieKind::any;
};
struct Damage {  // a few parameters of the machine become NaN, or the device that holds them is lost
  std::uint32_t machine;
  Instant at;
  bool device = false;
};
struct Cut {  // nothing travels from one machine to another
  std::uint32_t source, target;
  Instant from, to;
  bool both_ways = true;
};
struct Partition {  // nothing travels between the machines of the island and the others
  std::vector<std::uint32_t> island;
  Instant from, to;
  bool outwards = true, inwards = true;  // the directions that are blocked
};
struct Clog {  // the bandwidth between two machines is divided by `factor`
  std::uint32_t a, b;
  Instant from, to;
  double factor;
};
struct PoorLinks {  // all links of some machines in both directions, or only those to `others`
  std::vector<std::uint32_t> machines;
  Instant from, to;
  LinkChange shape;
  std::vector<std::uint32_t> others{};
};
struct Reset {  // the connections between two machines break; both ends are notified
  std::uint32_t a, b;
  Instant at;
};
struct HalfOpen {  // the connections between two machines break; one end is notified
  std::uint32_t knows, deaf;
  Instant at;
};
struct TopologyChange {  // a user requests another topology at a machine
  std::uint32_t machine;
  Instant at;
  std::string topology;
};
struct Mutation {  // a bit of a control frame is flipped in transit, on any link
  Instant from, to;
  double chance;  // of each frame
};

struct Router {  // the machine is always behind a router: nobody can dial it
  std::uint32_t machine;
  bool knows;  // it does not listen; otherwise it has to find out
};
struct Relaying {  // the machine always relays for those that cannot be dialed
  std::uint32_t machine;
  std::uint64_t bandwidth;  // bits per second
};
struct Move {  // the address changes: all connections are gone, and no end is notified
  std::uint32_t machine;
  Instant at;
};
struct NoNames {  // new connections by name hang
  std::uint32_t machine;
  Instant from, to;
};

using Incident =
    std::variant<Crash, Departure, Pause, Slow, SlowDisk, Drift, Poison, Lies, Damage, Cut, Partition, Clog,
                 PoorLinks, Reset, HalfOpen, TopologyChange, Mutation, Router, Relaying, Move, NoNames>;

Instant beginning(const Incident& incident);
// "At 12.304 s p3 loses its power; at 18.100 s it is back as a new instance, without a cache."
std::string sentence(const Incident& incident, const std::vector<std::string>& names);

// ---- rates ----

// Frequencies are expected numbers per minute, for each machine unless the comment says otherwise. Lengths
// are drawn from ranges.
struct Faults {
  struct Range {
    Duration least, most;
  };
  struct Instances {
    double crashes = 0, leaves = 0;
    double silent_share = 0.5;  // of crashes: power losses
    double back_share = 0.75;   // of crashes and leaves: a new instance follows
    double cached_share = 0.7;  // of new instances after a crash
    Range down{std::chrono::milliseconds(300), std::chrono::seconds(15)};
    double late_share = 0;  // of machines: start late
  };
  struct Machines {
    double pauses = 0;
    Range pause{std::chrono::milliseconds(200), std::chrono::seconds(12)};
    double slownesses = 0;
    double slow_factor_most = 20;
    double slow_disks = 0;
    Range disk_access{std::chrono::milliseconds(100), std::chrono::seconds(4)};
    Range slow{std::chrono::seconds(2), std::chrono::seconds(20)};
    double drift_most = 0;  // |rate| of each machine's clock
  };
  struct Values {
    double poisonings = 0;
    double lie_share = 0;  // of poisonings
    Range poison{std::chrono::seconds(2), std::chrono::seconds(15)};
    double losses = 0;
    double lies = 0;                // of the swarm: at most one member lies, in several intervals
    double offers = 0;              // intervals in which a member makes offers and nothing else
    double offers_share = 1.0 / 3;  // of the members that do
    double silences = 0;            // of the swarm: intervals in which one member makes no exchanges
    double mutations = 0;  // chance of each control frame, during two intervals per minute of the swarm
  };
  struct Links {
    double partitions = 0;  // of the swarm
    Range partition{std::chrono::milliseconds(300), std::chrono::seconds(20)};
    double one_way_share = 0.3;
    double cuts = 0, clogs = 0;
    Range clog{std::chrono::seconds(1), std::chrono::seconds(15)};
    double resets = 0, half_opens = 0;
    double tail_chance = 0;  // of packets with a long travel time (VirtualNetworkOptions)
  };
  struct Reach {
    double share = 1;    // of the seeds that have any of these
    double routers = 0;  // the greatest share of machines behind routers; at least one can be dialed
    double moves = 0;
    double resolver_failures = 0;
    Range failure{std::chrono::seconds(1), std::chrono::seconds(20)};
  };
  Instances instances{};
  Machines machines{};
  Values values{};
  Links links{};
  Reach reach{};
  double rewirings = 0;  // of the swarm

  static const std::vector<std::string>& names();  // "none", "all", "crash", ...
  static std::optional<Faults> named(std::string_view name);
};

struct FaultSetting {
  std::uint32_t machines;
  Instant from, to;             // all faults begin and end within this time
  std::uint32_t reachable = 1;  // the first machines, which can always be dialed at the same address
};

struct FaultDraw {
  std::vector<Incident> incidents;           // ordered by beginning
  std::vector<std::optional<Instant>> late;  // by machine: its start, if it starts late
};

// A topology that needs no arguments or files, drawn from the table of topologies.
std::string random_topology(Random& random);

// Two machines, also drawn, start on time and neither crash nor leave, so the run's parameters survive.
FaultDraw draw(std::uint64_t seed, const Faults& faults, const FaultSetting& setting);

}  // namespace starling::lab
