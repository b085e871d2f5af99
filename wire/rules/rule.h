// Every rule of exchange is one row here and one training::Mixer (training/mixing/make.cc). The row holds
// the facts that decide when, with whom and on what terms peers exchange; the arithmetic is the Mixer's. The
// core, both drivers, the settings and the simulator's checks read these facts and never compare a rule with
// a name.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "wire/rules/names.h"
#include "wire/rules/pace.h"
#include "wire/rules/payload.h"

namespace starling {

enum class Rule : std::uint8_t {
  pairwise,
  push_sum,
  d_psgd,
  choco,
  noloco,
  clipped,
  parameter_server,
  ssp,
  none,        // peers learn alone
  all_reduce,  // bulk-synchronous training without gossip: lab/simulate/all_reduce.h, node/all_reduce/
  diloco,      // the same, with rounds of several steps
};

// Who waits for whom.
enum class Meeting : std::uint8_t {
  never,
  whenever,     // one partner when an exchange is due, which answers at once
  lock_step,    // a round is an exchange with every neighbor, and no step is made until it is over
  served,       // a push is an exchange with every server, each for its own part (gossip/rules.h)
  every_step,   // all peers make every step together, outside the core
  every_round,  // the same for rounds: each peer makes steps alone, then all make an outer step together
};

// What both sides of a chunk keep when they mix it. Where gossip.weights is not "equal", nothing is kept.
enum class Keeps : std::uint8_t {
  nothing,
  sum,           // the sides move by opposite vectors
  sum_of_means,  // the same, and each side moves by w times the difference of both replicas as they are now
  weighted_sum,  // the sum of weight times value; the weights travel with the values
};

// Which of the factors in topologies/spectra/analysis.h predicts how fast replicas agree.
enum class Consensus : std::uint8_t {
  unknown,   // no analysis holds
  nobody,    // there are no exchanges
  exchange,  // both sides take their mean: consensus_factor or consensus_bound
  push,      // half of the weight is sent: push_factor
  round,     // lock-step rounds: round_factor
};

// The paces that a rule accepts.
enum class Paced : std::uint8_t { by_any, by_time, by_steps };

inline constexpr unsigned payload_bit(Payload payload) { return 1U << static_cast<unsigned>(payload); }
inline constexpr unsigned kDensePayloads =
    payload_bit(Payload::f32) | payload_bit(Payload::bf16) | payload_bit(Payload::int8);
inline constexpr unsigned kAllPayloads = kDensePayloads | payload_bit(Payload::top_k);

struct RuleTraits {
  std::string_view name;  // in gossip.rule
  std::string_view help;  // one line, for lists
  Pace pace{};            // gossip.every where the run does not set it
  Meeting meeting = Meeting::whenever;
  unsigned payloads = kDensePayloads;  // bits of those that the rule accepts
  Paced paced = Paced::by_any;
  std::string_view paced_because{};  // the reason, where not every pace is accepted
  bool undirected = false;           // requires a topology whose links go both ways
  bool shares = true;                // gossip.weights applies: a side may move less than the other
  bool limited = false;              // the number of exchanges accepted from one partner is limited
  bool bounded = false;              // gossip.staleness bounds how far a peer may be ahead (gossip/clocks.h)
  bool racks = false;                // servers may have racks between them and the peers (gossip.racks)
  bool clips = false;                // gossip.clip bounds the change by one exchange
  bool copies = false;        // both sides keep a copy of what the other published, and step towards it
  double outer_momentum = 0;  // gossip.outer_momentum where the run does not set it; 0: no outer steps
  Keeps keeps = Keeps::nothing;
  Consensus consensus = Consensus::unknown;
  std::string_view unpredicted{};      // with Consensus::unknown, the reason: "No prediction: ..."
  std::string_view predicted_as_if{};  // what the analysis assumes although the rule differs; empty: nothing

  constexpr bool takes(Payload payload) const { return (payloads & payload_bit(payload)) != 0; }
  constexpr bool has_servers() const { return meeting == Meeting::served; }
  // Whether a peer chooses one partner for an exchange.
  constexpr bool has_partners() const { return meeting == Meeting::whenever; }
  // Whether the core has exchanges to decide about.
  constexpr bool exchanges() const { return meeting != Meeting::never && !all_at_once(); }
  constexpr bool all_at_once() const {
    return meeting == Meeting::every_step || meeting == Meeting::every_round;
  }
  // Whether gossip.every and gossip.payload apply.
  constexpr bool is_paced() const { return exchanges() || meeting == Meeting::every_round; }
  // Whether replicas make outer steps, in which gossip.fragments may take turns.
  constexpr bool has_outer_steps() const { return outer_momentum > 0; }
  // Whether a healthy partner may let one wait.
  constexpr bool lets_wait() const { return meeting == Meeting::lock_step || bounded; }
};

// gossip.consensus_rate where the run does not set it. With f32, bf16 and int8 every rate up to 1 converges,
// and 1 is the fastest. With top-k a coordinate's copies are corrected once in 1/fraction exchanges, and in
// each of these the two sides move towards the old copies by the rate: beyond 2 fractions a pair overshoots
// and diverges (measured: 2.5 for one link and even vectors, 10 for eight peers).
constexpr double default_consensus_rate(Payload payload, double top_k) {
  return payload == Payload::top_k ? std::min(1.0, 1.5 * top_k) : 1;
}

inline constexpr std::array<RuleTraits, 11> kRules = {{
    {.name = "pairwise",
     .help = "two peers take their mean (AD-PSGD); nobody waits",
     .payloads = kAllPayloads,
     .keeps = Keeps::sum_of_means,
     .consensus = Consensus::exchange},
    {.name = "push-sum",
     .help = "a peer sends half of its weight and values one way; nobody waits",
     .pace = {.kind = Pace::Kind::time, .time = std::chrono::milliseconds(200)},
     .paced = Paced::by_time,
     .paced_because = "a peer that makes fewer steps would keep more weight than the others",
     .shares = false,
     .keeps = Keeps::weighted_sum,
     .consensus = Consensus::push},
    {.name = "d-psgd",
     .help = "rounds in lock step: a peer waits for all its neighbors",
     .pace = {.steps = 1},
     .meeting = Meeting::lock_step,
     .undirected = true,
     .shares = false,
     .keeps = Keeps::sum,
     .consensus = Consensus::round},
    {.name = "choco",
     .help = "two peers exchange compressed differences to copies that both keep",
     .payloads = kAllPayloads,
     .copies = true,
     .keeps = Keeps::sum,
     .consensus = Consensus::exchange},
    {.name = "noloco",
     .help = "an outer step with momentum every few dozen steps, with one partner",
     .pace = {.steps = 50},
     .outer_momentum = 0.5,
     .unpredicted = "noloco's outer steps have momentum; no analysis here is of that"},
    {.name = "clipped",
     .help = "pairwise, but a partner that is far off moves a peer only so far",
     .limited = true,
     .clips = true,
     .consensus = Consensus::exchange,
     .predicted_as_if = "nothing were clipped"},
    {.name = "parameter-server",
     .help = "peers push to servers that each hold a part of the model; nobody waits",
     .pace = {.steps = 1},
     .meeting = Meeting::served,
     .shares = false,
     .racks = true,
     .unpredicted = "peers meet servers and not one another, so the topology has no say"},
    {.name = "ssp",
     .help = "parameter servers; a peer waits while it is too far ahead of the slowest",
     .pace = {.steps = 1},
     .meeting = Meeting::served,
     .paced = Paced::by_steps,
     .paced_because = "its staleness counts steps",
     .shares = false,
     .bounded = true,
     .unpredicted = "peers meet servers and not one another, so the topology has no say"},
    {.name = "none",
     .help = "no exchanges: every peer learns alone",
     .meeting = Meeting::never,
     .payloads = kAllPayloads,
     .shares = false,
     .consensus = Consensus::nobody},
    {.name = "all-reduce",
     .help = "no gossip: every step averages the gradients of all peers, and all wait for it",
     .pace = {.steps = 1},
     .meeting = Meeting::every_step,
     .payloads = payload_bit(Payload::f32),
     .shares = false,
     .unpredicted = "all replicas are equal after every step"},
    {.name = "diloco",
     .help = "no gossip: every few dozen steps all peers average and take an outer step with momentum",
     .pace = {.steps = 50},
     .meeting = Meeting::every_round,
     .paced = Paced::by_steps,
     .paced_because = "all peers make the same steps in a round",
     .shares = false,
     .outer_momentum = 0.9,
     .unpredicted = "all replicas are equal after every round"},
}};
static_assert(kRules.size() == static_cast<std::size_t>(Rule::diloco) + 1);

constexpr const RuleTraits& traits(Rule rule) { return kRules[static_cast<std::size_t>(rule)]; }
constexpr std::optional<Rule> rule_named(std::string_view name) { return find_named<Rule>(kRules, name); }

// Rules with servers: how many there may be, and by how many pushes a peer may be ahead.
inline constexpr std::uint32_t kServersMax = 1024;
inline constexpr std::uint64_t kStalenessMax = 1'000'000;

// Parts of the arena that take turns in outer steps, at most.
inline constexpr std::uint32_t kFragmentsMax = 1024;

// Whether a rule can be combined with a pace, a payload, racks or fragments. The Error begins with the
// setting's key.
Status check_pace(const RuleTraits& rule, const Pace& pace);
Status check_payload(const RuleTraits& rule, Payload payload);
Status check_racks(const RuleTraits& rule, std::uint32_t racks);
// Each fragment takes its turn after the same part of the pace. Rules without outer steps have no fragments.
Status check_fragments(const RuleTraits& rule, const Pace& pace, std::uint32_t fragments);
// The pace of one fragment. REQUIRES: check_fragments() succeeds.
Pace pace_of_fragment(const RuleTraits& rule, const Pace& pace, std::uint32_t fragments);
inline Status check_pace(Rule rule, const Pace& pace) { return check_pace(traits(rule), pace); }
inline Status check_payload(Rule rule, Payload payload) { return check_payload(traits(rule), payload); }
inline Status check_racks(Rule rule, std::uint32_t racks) { return check_racks(traits(rule), racks); }

}  // namespace starling
