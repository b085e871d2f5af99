#include "gossip/rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace starling::gossip {
namespace {

// What has been read so far. A pace that no setting gives follows from the rule.
struct Draft {
  std::uint64_t epoch_samples;
  RunRules rules;
  bool paced = false;
};

Error expected(std::string_view what) { return Error{"expected " + std::string(what)}; }

template <class T>
Status set(T& field, Result<T> value) {
  if (!value) return value.error();
  field = std::move(*value);
  return Done{};
}

Status read_topology(Draft& draft, std::string_view value) {
  return set(draft.rules.topology, topologies::Topology::parse(std::string(value)));
}

Status read_pace(Draft& draft, std::string_view value) {
  draft.paced = true;
  return set(draft.rules.pace, parse_pace(value));
}

template <auto Member, const auto& Table>
Status read_name(Draft& draft, std::string_view value) {
  const auto found = find_named<std::remove_reference_t<decltype(draft.rules.*Member)>>(Table, value);
  if (!found) return expected(one_of(names_of(Table)));
  draft.rules.*Member = *found;
  return Done{};
}

template <auto Member, std::uint64_t Low, std::uint64_t High>
Status read_servers(Draft& draft, std::string_view value) {
  auto& number = draft.rules.servers.*Member;
  const auto count = parse_number<std::remove_reference_t<decltype(number)>>(value);
  if (!count || *count < Low || *count > High)
    return expected("a whole number from " + std::to_string(Low) + " to " + std::to_string(High));
  number = *count;
  return Done{};
}

Status read_fragments(Draft& draft, std::string_view value) {
  const auto count = parse_number<std::uint32_t>(value);
  if (!count || *count < 1 || *count > kFragmentsMax)
    return expected("a whole number from 1 to " + std::to_string(kFragmentsMax));
  draft.rules.fragments = *count;
  return Done{};
}

Status read_server_rate(Draft& draft, std::string_view value) {
  const auto rate = draft.rules.servers.rate = parse_number<double>(value);
  return rate && *rate > 0 && *rate <= 1 ? Status(Done{}) : expected("a number above 0 and up to 1");
}

Status read_epochs(Draft& draft, std::string_view value) {
  const auto epochs = parse_number<double>(value);
  if (!epochs || *epochs < 0 || *epochs > 1e9) return expected("a number of epochs");
  draft.rules.end.swarm_samples =
      static_cast<std::uint64_t>(std::ceil(*epochs * static_cast<double>(draft.epoch_samples)));
  return Done{};
}

Status read_steps(Draft& draft, std::string_view value) {
  draft.rules.end.steps = parse_number<std::uint64_t>(value);
  return draft.rules.end.steps ? Status(Done{}) : expected("a number of steps");
}

Status read_seconds(Draft& draft, std::string_view value) {
  const auto seconds = parse_number<double>(value);
  const auto time = seconds && *seconds >= 0 && *seconds < 1e9 ? Result<Duration>(from_seconds(*seconds))
                                                               : parse_duration(value);
  if (!time) return expected("a time");
  draft.rules.end.time = *time;
  return Done{};
}

struct Key {
  std::string_view name;
  Status (*read)(Draft& draft, std::string_view value);
};
constexpr Key kKeys[] = {
    {"gossip.topology", read_topology},
    {"gossip.rule", read_name<&RunRules::rule, kRules>},
    {"gossip.weights", read_name<&RunRules::shares, kShares>},
    {"gossip.partners", read_name<&RunRules::partners, kPartners>},
    {"gossip.every", read_pace},
    {"gossip.fragments", read_fragments},
    {"gossip.servers", read_servers<&Servers::shards, 1, kServersMax>},
    {"gossip.racks", read_servers<&Servers::racks, 0, kServersMax>},
    {"gossip.staleness", read_servers<&Servers::staleness, 1, kStalenessMax>},
    {"gossip.server_rate", read_server_rate},
    {"training.epochs", read_epochs},
    {"training.steps", read_steps},
    {"training.seconds", read_seconds},
};

Status check_together(const RunRules& rules) {
  const RuleTraits& rule = traits(rules.rule);
  if (rule.all_at_once())
    return Error{"gossip.rule: " + std::string(rule.name) + " has no gossip; all its peers start together"};
  if (Status fine = check_pace(rules.rule, rules.pace); !fine) return fine;
  if (Status fine = check_racks(rules.rule, rules.servers.racks); !fine) return fine;
  if (Status fine = check_fragments(rule, rules.pace, rules.fragments); !fine) return fine;
  if (const auto why = obstacle_to(rule, rules.topology)) return Error{"gossip.topology: " + *why};
  return Done{};
}

}  // namespace

Role role_of(std::string_view name, const Servers& servers) {
  if (name.size() < 2 || name.front() != 's') return {};
  const auto number = parse_number<std::uint32_t>(name.substr(1));
  if (!number || (name[1] == '0' && name.size() > 2)) return {};
  if (*number < servers.shards) return {Role::Kind::shard, *number};
  if (*number - servers.shards < servers.racks) return {Role::Kind::rack, *number - servers.shards};
  return {};
}

std::optional<std::string> obstacle_to(const RuleTraits& rule, const topologies::Topology& topology) {
  if (!rule.undirected || !topology.among(4).directed()) return std::nullopt;
  return "'" + topology.name() + "' is directed, and the rule " + std::string(rule.name) +
         " requires links that go both ways";
}

Result<RunRules> rules_from(const wire::Manifest& manifest, std::uint64_t epoch_samples) {
  Draft draft{epoch_samples, {*topologies::Topology::parse("exponential")}};
  for (const auto& [key, value] : manifest.settings) {
    const auto known = std::ranges::find(kKeys, key, &Key::name);
    if (known == std::end(kKeys)) continue;
    if (Status read = known->read(draft, value); !read)
      return Error{"this program cannot follow the run's " + key + " = '" + value +
                   "': " + read.error().message};
  }
  if (!draft.paced) draft.rules.pace = traits(draft.rules.rule).pace;
  if (Status fine = check_together(draft.rules); !fine)
    return Error{"this program cannot follow the run's settings: " + fine.error().message};
  return draft.rules;
}

}  // namespace starling::gossip
