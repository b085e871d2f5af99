#include "gossip/rules.h"

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"

namespace starling::gossip {
namespace {

std::optional<Pace> parse_pace(std::string_view text) {
  Pace pace;
  if (text == "always") {
    pace.kind = Pace::Kind::always;
    return pace;
  }
  for (const std::string_view suffix : {" steps", " step"}) {
    if (!text.ends_with(suffix)) continue;
    const auto steps = parse_number<std::uint64_t>(text.substr(0, text.size() - suffix.size()));
    if (!steps || *steps == 0) return std::nullopt;
    pace.steps = *steps;
    return pace;
  }
  constexpr std::string_view kPoisson = "poisson ";
  pace.kind = text.starts_with(kPoisson) ? Pace::Kind::poisson : Pace::Kind::time;
  if (pace.kind == Pace::Kind::poisson) text.remove_prefix(kPoisson.size());
  const auto time = parse_duration(text);
  if (!time || time->count() == 0) return std::nullopt;
  pace.time = *time;
  return pace;
}

std::array<std::string_view, kRules.size()> rule_names() {
  std::array<std::string_view, kRules.size()> names;
  for (std::size_t k = 0; k < kRules.size(); ++k) names[k] = kRules[k].name;
  return names;
}

}  // namespace

Result<RunRules> rules_from(const wire::Manifest& manifest, std::uint64_t epoch_samples) {
  std::optional<topologies::Topology> topology;
  Rule rule = Rule::pairwise;
  std::optional<Pace> pace;
  End end;
  Partners partners = Partners::uniform;
  Shares shares = Shares::equal;
  Servers servers;
  for (const auto& [key, value] : manifest.settings) {
    const auto bad = [&, k = std::string_view(key), v = std::string_view(value)](std::string_view expected) {
      return Error{"the run's " + std::string(k) + " = '" + std::string(v) +
                   "' cannot be followed by this program; expected " + std::string(expected)};
    };
    if (key == "gossip.topology") {
      auto parsed = topologies::Topology::parse(value);
      if (!parsed) return Error{"the run's gossip.topology cannot be followed: " + parsed.error().message};
      topology = *parsed;
    } else if (key == "gossip.rule") {
      const auto named = rule_named(value);
      if (!named) return bad(one_of(rule_names()));
      rule = *named;
    } else if (key == "gossip.weights") {
      if (value == "work") {
        shares = Shares::work;
      } else if (value == "age") {
        shares = Shares::age;
      } else if (value != "equal") {
        return bad("equal, work or age");
      }
    } else if (key == "gossip.partners") {
      if (value == "aware") {
        partners = Partners::aware;
      } else if (value == "turns") {
        partners = Partners::turns;
      } else if (value != "uniform") {
        return bad("uniform, turns or aware");
      }
    } else if (key == "gossip.every") {
      const auto parsed = parse_pace(value);
      if (!parsed) return bad("'8 steps', '200ms', 'poisson 200ms' or 'always'");
      pace = *parsed;
    } else if (key == "gossip.servers" || key == "gossip.racks") {
      const auto count = parse_number<std::uint32_t>(value);
      const std::uint32_t least = key == "gossip.servers" ? 1 : 0;
      if (!count || *count < least || *count > kMostServers) return bad("a number of servers up to 1024");
      (least == 1 ? servers.shards : servers.racks) = *count;
    } else if (key == "gossip.staleness") {
      const auto pushes = parse_number<std::uint64_t>(value);
      if (!pushes || *pushes == 0 || *pushes > kMostStale) return bad("a number of pushes from 1 to 1000000");
      servers.staleness = *pushes;
    } else if (key == "gossip.server_rate") {
      const auto rate = parse_number<double>(value);
      if (!rate || !(*rate > 0 && *rate <= 1)) return bad("a number above 0 and up to 1");
      servers.rate = *rate;
    } else if (key == "training.epochs") {
      const auto epochs = parse_number<double>(value);
      if (!epochs || *epochs < 0 || *epochs > 1e9) return bad("a number of epochs");
      end.swarm_samples = static_cast<std::uint64_t>(std::ceil(*epochs * static_cast<double>(epoch_samples)));
    } else if (key == "training.steps") {
      const auto steps = parse_number<std::uint64_t>(value);
      if (!steps) return bad("a number of steps");
      end.steps = *steps;
    } else if (key == "training.seconds") {
      const auto seconds = parse_number<double>(value);
      const auto time = seconds && *seconds >= 0 && *seconds < 1e9 ? Result<Duration>(from_seconds(*seconds))
                                                                   : parse_duration(value);
      if (!time) return bad("a time");
      end.time = *time;
    }
  }
  if (!topology) {
    auto parsed = topologies::Topology::parse("exponential");
    if (!parsed) return parsed.error();
    topology = *parsed;
  }
  const RuleTraits& facts = traits(rule);
  if (!pace) pace = parse_pace(facts.every);
  if (facts.by_time_alone && pace->kind == Pace::Kind::steps) {
    return Error{"the run's gossip.every counts steps, and the rule " + std::string(facts.name) +
                 " is paced by time: whoever steps less often would count for more; expected '200ms' or the like"};
  }
  if (facts.bounded && pace->kind != Pace::Kind::steps) {
    return Error{"the run's gossip.every counts no steps, and the rule " + std::string(facts.name) +
                 " bounds by how many steps a peer is ahead; expected '1 step' or the like"};
  }
  if (facts.bounded && servers.racks > 0)
    return Error{"the run's gossip.racks go with the rule parameter-server alone"};
  if (facts.undirected && topology->among(4).directed()) {
    return Error{"the run's gossip.topology = '" + topology->name() + "' is directed, and the rule " +
                 std::string(facts.name) + " asks for links that go both ways"};
  }
  return RunRules{*topology, rule, *pace, end, partners, shares, servers};
}

}  // namespace starling::gossip
