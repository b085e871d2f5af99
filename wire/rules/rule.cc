#include "wire/rules/rule.h"

#include <string>
#include <vector>

#include "base/text.h"

namespace starling {

Status check_pace(const RuleTraits& rule, const Pace& pace) {
  const bool steps = pace.kind == Pace::Kind::steps;
  if (rule.paced == Paced::by_any || steps == (rule.paced == Paced::by_steps)) return Done{};
  return Error{"gossip.every: the rule " + std::string(rule.name) + " is paced by " +
               (steps ? "time (200ms, poisson 200ms), not by steps: " : "steps (1 step), not by time: ") +
               std::string(rule.paced_because)};
}

Status check_payload(const RuleTraits& rule, Payload payload) {
  if (rule.takes(payload)) return Done{};
  std::vector<std::string_view> names;
  for (std::size_t k = 0; k < kPayloads.size(); ++k)
    if (rule.takes(static_cast<Payload>(k))) names.push_back(kPayloads[k].name);
  return Error{"gossip.payload: the rule " + std::string(rule.name) + " takes " + one_of(names) + ", not " +
               std::string(traits(payload).name)};
}

Status check_racks(const RuleTraits& rule, std::uint32_t racks) {
  if (racks == 0 || rule.racks) return Done{};
  return Error{"gossip.racks: the rule " + std::string(rule.name) + " has no racks; set it to 0"};
}

Status check_fragments(const RuleTraits& rule, const Pace& pace, std::uint32_t fragments) {
  if (!rule.has_outer_steps() || pace.kind != Pace::Kind::steps || pace.steps % fragments == 0) return Done{};
  const std::string begin = "gossip.fragments: " + std::to_string(fragments) +
                            " fragments cannot take turns in " + format_pace(pace) + " (gossip.every); ";
  if (fragments > pace.steps) return Error{begin + "there must be a step for each of them"};
  return Error{begin + "their number must divide that of the steps"};
}

Pace pace_of_fragment(const RuleTraits& rule, const Pace& pace, std::uint32_t fragments) {
  Pace its = pace;
  if (!rule.has_outer_steps()) return its;
  if (pace.kind == Pace::Kind::steps) its.steps /= fragments;
  its.time /= fragments;
  return its;
}

}  // namespace starling
