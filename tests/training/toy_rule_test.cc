// Adds a toy rule as docs/EXTENDING.md describes: a class derived from training::TwoWay and a row in the
// table of rules.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/training/mixers.h"
#include "training/mixing/two_way.h"
#include "wire/rules/rule.h"

namespace starling::training {
namespace {

// Each side takes a quarter of the difference: x += (theirs - own) / 4.
class ToyQuarter : public TwoWay {
 public:
  ToyQuarter(models::Arena& arena, const MixOptions& options) : TwoWay(arena, options) {}

 private:
  bool own_values(Cells cells, std::span<float> out) override {
    return target_.read(grid_.offset(cells.first), out);
  }
  float weight(const Session& /*session*/, Cells /*cells*/) const override { return 0.25F; }
  bool known_weight(float weight) const override { return weight == 0.25F; }
};

std::vector<RuleTraits> with_toy_rule() {
  std::vector<RuleTraits> table(kRules.begin(), kRules.end());
  table.push_back({.name = "toy-quarter",
                   .help = "each side takes a quarter of the difference",
                   .pace = {.steps = 4},
                   .payloads = payload_bit(Payload::f32) | payload_bit(Payload::bf16),
                   .paced = Paced::by_steps,
                   .paced_because = "it counts steps",
                   .keeps = Keeps::sum});
  return table;
}

MixOptions toy_options() {
  MixOptions options;
  options.cell_floats = 4;
  return options;
}

struct ToyParty : Party {
  explicit ToyParty(const std::vector<float>& values) : Party(values, toy_options()) {
    mixer = std::make_unique<ToyQuarter>(arena, toy_options());
  }
};

TEST_CASE("the row of a new rule is found by its name and determines the valid combinations") {
  const auto table = with_toy_rule();
  CHECK_FALSE(rule_named("toy-quarter"));
  const auto found = find_named<Rule>(table, "toy-quarter");
  REQUIRE(found);
  const RuleTraits& row = table[static_cast<std::size_t>(*found)];
  CHECK(&row == &table.back());
  CHECK(names_of(table).back() == "toy-quarter");
  CHECK((row.exchanges() && !row.lets_wait() && !row.has_servers()));
  CHECK(check_pace(row, row.pace));
  CHECK(check_pace(row, {.kind = Pace::Kind::time, .time = std::chrono::seconds(1)}).error().message ==
        "gossip.every: the rule toy-quarter is paced by steps (1 step), not by time: it counts steps");
  CHECK(check_payload(row, Payload::bf16));
  CHECK(check_payload(row, Payload::int8).error().message ==
        "gossip.payload: the rule toy-quarter takes f32 or bf16, not int8");
  CHECK(check_racks(row, 0));
  CHECK_FALSE(check_racks(row, 1));
}

TEST_CASE("two replicas exchange by the mixer of a new rule") {
  std::vector<float> x(10), y(10);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i);
    y[i] = static_cast<float>(3 * i) - 8;
  }
  ToyParty a(x), b(y);
  exchange(a, b, session_of(1, 10, 20));
  const auto new_x = contents(a.arena), new_y = contents(b.arena);
  for (std::size_t i = 0; i < x.size(); ++i) {
    CHECK(new_x[i] == 0.75F * x[i] + 0.25F * y[i]);
    CHECK(new_y[i] == 0.25F * x[i] + 0.75F * y[i]);
  }
  CHECK((a.mixer->mixes() == 1 && b.mixer->mixes() == 1));
}

TEST_CASE("the mixer of a new rule rejects a reply with another weight") {
  ToyParty a({1, 2, 3, 4}), b({5, 6, 7, 8});
  const Session session = session_of(1, 10, 20);
  const auto offer = a.lend(session, {0, 1});
  REQUIRE(offer.ok());
  auto reply = b.answer(seen_by_responder(session), offer->parcel);
  REQUIRE(reply.ok());
  CHECK(contents(b.arena) == std::vector<float>{4, 5, 6, 7});
  reply->parcel.weight = 0.5F;
  const auto mixed = a.mixer->complete(session, offer->parcel, reply->parcel);
  REQUIRE_FALSE(mixed.ok());
  CHECK(mixed.error().fault == MixFault::weight);
  CHECK(contents(a.arena) == std::vector<float>{1, 2, 3, 4});
}

}  // namespace
}  // namespace starling::training
