// What the core must know of each exchange rule: one table. The arithmetic of a rule is its Mixer's
// (training/exchange); here stand only the facts that decide when, with whom and on what terms an exchange begins.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace starling::gossip {

enum class Rule : std::uint8_t { none, pairwise, push_sum, d_psgd, choco, noloco, clipped, parameter_server, ssp };

// Who waits for whom.
enum class Meeting : std::uint8_t {
  never,
  whenever,      // one partner when an exchange is due; whoever is asked answers at once
  outer_rounds,  // the same, and a round (an outer step) begins first; who is far behind catches up
  lock_step,     // a round is an exchange with every neighbor, and no step is made until it is over
  served,        // a push is an exchange with every server, each of its own part (gossip/servers.h)
};

struct RuleTraits {
  std::string_view name;   // as in gossip.rule
  std::string_view every;  // gossip.every where the run does not say
  Meeting meeting = Meeting::whenever;
  bool by_time_alone = false;  // refuses a pace in steps: whoever sends less often would count for more
  bool undirected = false;     // asks for a topology whose links go both ways
  bool shares = true;          // a side may move less than the other (gossip.weights); not where that breaks the rule
  bool limited = false;        // exchanges accepted of one partner are limited in number
  bool bounded = false;        // no peer is more than so many pushes ahead of the slowest (gossip/clocks.h)

  // Whether a partner that is well may let one wait.
  constexpr bool lets_wait() const { return meeting == Meeting::lock_step || bounded; }
};

inline constexpr std::array<RuleTraits, 9> kRules = {{
    {.name = "none", .every = "8 steps", .meeting = Meeting::never, .shares = false},
    {.name = "pairwise", .every = "8 steps"},
    {.name = "push-sum", .every = "200ms", .by_time_alone = true, .shares = false},
    {.name = "d-psgd", .every = "1 step", .meeting = Meeting::lock_step, .undirected = true, .shares = false},
    {.name = "choco", .every = "8 steps"},
    {.name = "noloco", .every = "50 steps", .meeting = Meeting::outer_rounds},
    {.name = "clipped", .every = "8 steps", .limited = true},
    {.name = "parameter-server", .every = "1 step", .meeting = Meeting::served, .shares = false},
    {.name = "ssp", .every = "1 step", .meeting = Meeting::served, .shares = false, .bounded = true},
}};

constexpr const RuleTraits& traits(Rule rule) {
  return kRules[static_cast<std::size_t>(rule)];
}
constexpr std::optional<Rule> rule_named(std::string_view name) {
  for (std::size_t k = 0; k < kRules.size(); ++k)
    if (kRules[k].name == name) return static_cast<Rule>(k);
  return std::nullopt;
}

}  // namespace starling::gossip
