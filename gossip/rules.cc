#include "gossip/rules.h"

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"

namespace starling::gossip {
namespace {

// What has been read so far. Unset values get their defaults once everything is read, since some follow from
// others.
struct Draft {
  std::uint64_t epoch_samples = 0;
  std::optional<topologies::Topology> topology;
  Rule rule = Rule::pairwise;
  std::optional<Pace> pace;
  End end;
  Partners partners = Partners::uniform;
  Shares shares = Shares::equal;
  Servers servers;
};

Error expected(std::string_view what) {
  return Error{"expected " + std::string(what)};
}

Status read_topology(Draft& draft, std::string_view value) {
  auto parsed = topologies::Topology::parse(std::string(value));
  if (!parsed) return parsed.error();
  draft.topology = *parsed;
  return Done{};
}

Status read_pace(Draft& draft, std::string_view value) {
  const auto parsed = parse_pace(value);
  if (!parsed) return parsed.error();
  draft.pace = *parsed;
  return Done{};
}

template <auto Member, const auto& Table>
Status read_name(Draft& draft, std::string_view value) {
  using Enum = std::remove_reference_t<decltype(draft.*Member)>;
  const auto found = find_named<Enum>(Table, value);
  if (!found) return expected(one_of(names_of(Table)));
  draft.*Member = *found;
  return Done{};
}

template <auto Member, std::uint64_t Low, std::uint64_t High>
Status read_servers(Draft& draft, std::string_view value) {
  using Number = std::remove_reference_t<decltype(draft.servers.*Member)>;
  const auto count = parse_number<Number>(value);
  if (!count || *count < Low || *count > High)
    return expected("a whole number from " + std::to_string(Low) + " to " + std::to_string(High));
  draft.servers.*Member = *count;
  return Done{};
}

Status read_server_rate(Draft& draft, std::string_view value) {
  const auto rate = parse_number<double>(value);
  if (!rate || !(*rate > 0 && *rate <= 1)) return expected("a number above 0 and up to 1");
  draft.servers.rate = *rate;
  return Done{};
}

Status read_epochs(Draft& draft, std::string_view value) {
  const auto epochs = parse_number<double>(value);
  if (!epochs || *epochs < 0 || *epochs > 1e9) return expected("a number of epochs");
  draft.end.swarm_samples =
      static_cast<std::uint64_t>(std::ceil(*epochs * static_cast<double>(draft.epoch_samples)));
  return Done{};
}

Status read_steps(Draft& draft, std::string_view value) {
  const auto steps = parse_number<std::uint64_t>(value);
  if (!steps) return expected("a number of steps");
  draft.end.steps = *steps;
  return Done{};
}

Status read_seconds(Draft& draft, std::string_view value) {
  const auto seconds = parse_number<double>(value);
  const auto time = seconds && *seconds >= 0 && *seconds < 1e9 ? Result<Duration>(from_seconds(*seconds))
                                                               : parse_duration(value);
  if (!time) return expected("a time");
  draft.end.time = *time;
  return Done{};
}

struct Key {
  std::string_view name;
  Status (*read)(Draft& draft, std::string_view value);
};
constexpr Key kKeys[] = {
    {"gossip.topology", read_topology},
    {"gossip.rule", read_name<&Draft::rule, kRules>},
    {"gossip.weights", read_name<&Draft::shares, kShares>},
    {"gossip.partners", read_name<&Draft::partners, kPartners>},
    {"gossip.every", read_pace},
    {"gossip.servers", read_servers<&Servers::shards, 1, kServersMax>},
    {"gossip.racks", read_servers<&Servers::racks, 0, kServersMax>},
    {"gossip.staleness", read_servers<&Servers::staleness, 1, kStalenessMax>},
    {"gossip.server_rate", read_server_rate},
    {"training.epochs", read_epochs},
    {"training.steps", read_steps},
    {"training.seconds", read_seconds},
};

Status check_together(const Draft& draft) {
  const RuleTraits& rule = traits(draft.rule);
  if (rule.all_at_once())
    return Error{"gossip.rule: " + std::string(rule.name) + " has no gossip; all its peers start together"};
  if (Status fine = check_pace(draft.rule, *draft.pace); !fine) return fine;
  if (Status fine = check_racks(draft.rule, draft.servers.racks); !fine) return fine;
  if (rule.undirected && draft.topology->among(4).directed())
    return Error{"gossip.topology: '" + draft.topology->name() + "' is directed, and the rule " +
                 std::string(rule.name) + " requires links that go both ways"};
  return Done{};
}

}  // namespace

Result<RunRules> rules_from(const wire::Manifest& manifest, std::uint64_t epoch_samples) {
  Draft draft;
  draft.epoch_samples = epoch_samples;
  for (const auto& [key, value] : manifest.settings) {
    for (const Key& known : kKeys) {
      if (known.name != key) continue;
      if (Status read = known.read(draft, value); !read)
        return Error{"this program cannot follow the run's " + key + " = '" + value +
                     "': " + read.error().message};
    }
  }
  if (!draft.topology) {
    if (Status read = read_topology(draft, "exponential"); !read) return read.error();
  }
  if (!draft.pace) draft.pace = traits(draft.rule).pace;
  if (Status fine = check_together(draft); !fine)
    return Error{"this program cannot follow the run's settings: " + fine.error().message};
  return RunRules{*draft.topology, draft.rule,   *draft.pace,  draft.end,
                  draft.partners,  draft.shares, draft.servers};
}

}  // namespace starling::gossip
