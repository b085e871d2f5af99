// The tables of rules, payloads and policies: every row is complete and agrees with docs/RULES.md.
#include "wire/rules/rule.h"

#include <set>

#include "tests/catch.h"
#include "tests/rules/sources.h"
#include "wire/rules/policy.h"

namespace starling {
namespace {

// The cells of the row that begins with "| `name` |" in a table of the document; empty without such a row.
std::vector<std::string> row_of(const std::string& document, std::string_view name) {
  const std::string begin = "\n| `" + std::string(name) + "` |";
  const std::size_t at = document.find(begin);
  if (at == std::string::npos) return {};
  std::vector<std::string> cells;
  std::string cell;
  for (std::size_t i = at + begin.size(); i < document.size() && document[i] != '\n'; ++i) {
    if (document[i] != '|') {
      cell += document[i];
      continue;
    }
    cells.push_back(cell.substr(1, cell.size() - 2));
    cell.clear();
  }
  return cells;
}

template <class Table>
bool names_are_distinct(const Table& table) {
  std::set<std::string_view> names;
  for (const auto& row : table) {
    if (row.name.empty() || !names.insert(row.name).second) return false;
  }
  return true;
}

TEST_CASE("names of rules, payloads and policies are distinct and find their rows") {
  CHECK(names_are_distinct(kRules));
  CHECK(names_are_distinct(kPayloads));
  CHECK(names_are_distinct(kPartners));
  CHECK(names_are_distinct(kShares));
  for (const RuleTraits& row : kRules) CHECK(&traits(*rule_named(row.name)) == &row);
  for (const PayloadTraits& row : kPayloads) CHECK(&traits(*payload_named(row.name)) == &row);
  CHECK_FALSE(rule_named("telepathy"));
  CHECK_FALSE(payload_named("none"));
  CHECK(name(Partners::aware) == "aware");
  CHECK(name(Shares::age) == "age");
}

TEST_CASE("every rule accepts its own pace and f32, and predicts consensus or gives a reason") {
  for (std::size_t k = 0; k < kRules.size(); ++k) {
    const auto rule = static_cast<Rule>(k);
    const RuleTraits& row = traits(rule);
    INFO(row.name);
    CHECK_FALSE(row.help.empty());
    CHECK(check_pace(rule, row.pace));
    CHECK(check_payload(rule, Payload::f32));
    CHECK((row.consensus == Consensus::unknown) != row.unpredicted.empty());
    CHECK((row.paced == Paced::by_any) == row.paced_because.empty());
    CHECK((!row.racks || row.has_servers()));
    CHECK((row.keeps == Keeps::nothing || row.exchanges()));
  }
}

TEST_CASE("the table of rules begins with the rules that exchange, from which the hunt draws") {
  bool exchanging = true;
  for (const RuleTraits& row : kRules) {
    CHECK((exchanging || !row.exchanges()));
    exchanging = row.exchanges();
  }
}

TEST_CASE("an unsupported pace, payload or rack is an error that names the key and the rule") {
  const auto why = [](const Status& status) { return status.ok() ? std::string() : status.error().message; };
  CHECK(why(check_pace(Rule::push_sum, {.steps = 8}))
            .starts_with("gossip.every: the rule push-sum is paced by time"));
  const Pace time{.kind = Pace::Kind::time, .time = std::chrono::seconds(1)};
  CHECK(why(check_pace(Rule::ssp, time)).starts_with("gossip.every: the rule ssp is paced by steps"));
  CHECK(why(check_pace(Rule::pairwise, time)).empty());
  CHECK(why(check_payload(Rule::noloco, Payload::top_k)) ==
        "gossip.payload: the rule noloco takes f32, bf16 or int8, not top-k");
  CHECK(why(check_payload(Rule::all_reduce, Payload::bf16)) ==
        "gossip.payload: the rule all-reduce takes f32, not bf16");
  CHECK(why(check_racks(Rule::ssp, 1)).starts_with("gossip.racks: the rule ssp has no racks"));
  CHECK(why(check_racks(Rule::parameter_server, 1)).empty());
}

TEST_CASE("docs/RULES.md has a row for every rule, with its barrier and its default pace") {
  const std::string document = source_text("docs/RULES.md");
  for (const RuleTraits& rule : kRules) {
    INFO(rule.name);
    const auto cells = row_of(document, rule.name);
    REQUIRE(cells.size() == 6);
    const bool waits = rule.lets_wait() || rule.all_at_once();
    if (rule.meeting == Meeting::never) {
      CHECK(cells.back() == "–");
      continue;
    }
    CHECK((cells.front() == "nobody") == !waits);
    std::string pace = cells.back();
    if (pace.ends_with(" ms")) pace.erase(pace.size() - 3, 1);
    const auto parsed = parse_pace(pace);
    REQUIRE(parsed);
    CHECK(*parsed == rule.pace);
  }
}

TEST_CASE("docs/RULES.md has a row for every payload, with the rules that take it") {
  const std::string document = source_text("docs/RULES.md");
  for (std::size_t k = 0; k < kPayloads.size(); ++k) {
    const auto payload = static_cast<Payload>(k);
    INFO(kPayloads[k].name);
    const auto cells = row_of(document, kPayloads[k].name);
    REQUIRE_FALSE(cells.empty());
    const bool every = cells.back().starts_with("every rule");
    for (std::size_t r = 0; r < kRules.size(); ++r) {
      const RuleTraits& rule = kRules[r];
      if (!rule.exchanges()) continue;
      INFO(rule.name);
      const bool listed = cells.back().find("`" + std::string(rule.name) + "`") != std::string::npos;
      CHECK(rule.takes(payload) == (every || listed));
    }
  }
}

}  // namespace
}  // namespace starling
