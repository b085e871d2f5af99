// starling rule list, show: the rules of exchange, from the table in wire/rules/rule.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/json.h"
#include "cli/shell/help.h"
#include "training/runs/experiment/settings/effects.h"
#include "training/runs/experiment/settings/setting_kinds.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/json.h"
#include "wire/rules/rule.h"

namespace starling::cli {
namespace {

// In the order of Meeting.
struct MeetingText {
  std::string_view partner, waits_for;
};
constexpr std::array<MeetingText, 6> kMeetings = {{
    {"none", "nobody"},
    {"one neighbor, when an exchange is due", "nobody"},
    {"all neighbors, in rounds", "all neighbors, in every round"},
    {"every server, for its part of the model", "nobody"},
    {"all peers together, without gossip", "all peers, in every step"},
    {"all peers together, without gossip", "all peers, in every round"},
}};
static_assert(kMeetings.size() == static_cast<std::size_t>(Meeting::every_round) + 1);

// In the order of Keeps.
constexpr std::array<std::string_view, 4> kKept = {"nothing", "the sum of the parameters",
                                                   "the sum of the parameters",
                                                   "the sum of weight times parameters"};
static_assert(kKept.size() == static_cast<std::size_t>(Keeps::weighted_sum) + 1);

// In the order of Paced.
constexpr std::array<std::string_view, 3> kPaces = {"steps, time, or always", "only time, or always",
                                                    "only steps"};
static_assert(kPaces.size() == static_cast<std::size_t>(Paced::by_steps) + 1);

template <class Table, class Enum>
std::string text_of(const Table& table, Enum value) {
  return std::string(table[static_cast<std::size_t>(value)]);
}

std::string partner_of(const RuleTraits& rule) {
  return std::string(kMeetings[static_cast<std::size_t>(rule.meeting)].partner);
}

std::string waits_for(const RuleTraits& rule) {
  if (rule.bounded) return "peers that are too far behind (--staleness)";
  return std::string(kMeetings[static_cast<std::size_t>(rule.meeting)].waits_for);
}

// What an exchange of two peers conserves; nothing for rules without such exchanges.
std::optional<std::string> kept_by(const RuleTraits& rule) {
  if (!rule.exchanges() || rule.has_servers()) return std::nullopt;
  const bool equal = rule.keeps != Keeps::nothing && rule.shares;
  return text_of(kKept, rule.keeps) + (equal ? ", if --weights is equal" : "");
}

std::vector<std::string> payloads_of(const RuleTraits& rule) {
  std::vector<std::string> names;
  if (rule.meeting == Meeting::never) return names;
  for (std::size_t k = 0; k < kPayloads.size(); ++k)
    if (rule.takes(static_cast<Payload>(k))) names.emplace_back(kPayloads[k].name);
  return names;
}

// The flags of [gossip] that have an effect with this rule and one of its payloads.
std::vector<std::string> flags_of(Rule name) {
  std::vector<std::string> flags;
  const RuleTraits& rule = traits(name);
  if (rule.meeting == Meeting::never) return flags;
  training::Experiment experiment;
  experiment.gossip.rule = name;
  for (std::size_t k = 0; k < kPayloads.size(); ++k)
    if (!kPayloads[k].dense && rule.takes(static_cast<Payload>(k)))
      experiment.gossip.payload = static_cast<Payload>(k);
  for (const training::Setting& setting : training::settings()) {
    if (setting.key.starts_with("gossip.") && setting.key != "gossip.rule" &&
        training::lack_of_effect(setting, experiment).empty())
      flags.push_back(setting.flag);
  }
  return flags;
}

// Whether it is predicted how fast the replicas agree, and why not.
std::string prediction_of(const RuleTraits& rule) {
  if (rule.consensus == Consensus::unknown) return "no: " + std::string(rule.unpredicted);
  if (rule.consensus == Consensus::nobody) return "no: there are no exchanges";
  const std::string as_if =
      rule.predicted_as_if.empty() ? "" : ", as if " + std::string(rule.predicted_as_if);
  return "yes, by the topology (starling topology show)" + as_if;
}

std::string rule_text(Rule name) {
  const RuleTraits& rule = traits(name);
  const bool paced = rule.is_paced();
  std::string text = fmt::format("{}: {}\n\n", rule.name, rule.help);
  const auto row = [&text](std::string_view title, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<12}{}\n", title, wrapped(value, 12));
  };
  row("partner", partner_of(rule));
  row("waits for", waits_for(rule));
  if (paced)
    row("every", format_pace(rule.pace) + " by default; --every takes " + text_of(kPaces, rule.paced) +
                     (rule.paced_because.empty() ? "" : ": " + std::string(rule.paced_because)));
  row("payloads", training::joined(payloads_of(rule), ", "));
  row("conserves", kept_by(rule).value_or(""));
  if (rule.undirected) row("topology", "only one whose links go both ways");
  row("flags", training::joined(flags_of(name), ", "));
  row("predicted", prediction_of(rule));
  return text + "\ndocs/RULES.md describes its arithmetic, its cost, and when to use it.\n";
}

std::string rule_json(Rule name) {
  const RuleTraits& rule = traits(name);
  return training::to_line(
      {{"name", rule.name},
       {"description", rule.help},
       {"partner", partner_of(rule)},
       {"waits_for", waits_for(rule)},
       {"every", rule.is_paced() ? training::Json(format_pace(rule.pace)) : training::Json(nullptr)},
       {"paces", rule.is_paced() ? training::Json(text_of(kPaces, rule.paced)) : training::Json(nullptr)},
       {"payloads", payloads_of(rule)},
       {"conserves", training::or_null(kept_by(rule))},
       {"undirected", rule.undirected},
       {"flags", flags_of(name)},
       {"predicted", rule.consensus != Consensus::unknown && rule.consensus != Consensus::nobody}});
}

int list_rules(const Arguments& arguments) {
  std::vector<Described> entries;
  for (const RuleTraits& rule : kRules) entries.push_back({std::string(rule.name), std::string(rule.help)});
  return print_list(arguments, "rules", entries);
}

int show_rule(const Arguments& arguments) {
  const std::string name = *arguments.get("NAME");
  const auto rule = rule_named(name);
  if (!rule) return refuse(arguments, training::parse_choice(name, names_of(kRules)).error());
  return print_out(arguments.has("--json") ? rule_json(*rule) : rule_text(*rule));
}

}  // namespace

std::vector<Command> rule_commands() {
  return {list_command("rule", "list the rules by which peers mix their parameters", list_rules),
          {"rule show",
           "print for whom a rule waits, its default pace and payloads, what it conserves",
           {{"NAME", "a name of `rule list`"}},
           {kJsonFlag},
           show_rule,
           "starling rule show clipped"}};
}

}  // namespace starling::cli
