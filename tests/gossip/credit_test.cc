// Which claims about samples are possible.
#include "gossip/members/credit.h"

#include <map>

#include "tests/catch.h"
#include "tests/gossip/table.h"

namespace starling::gossip {

namespace {

using By = bool;
constexpr By kItself = true, kOthers = false;

// Peer 1 in a run that began at 0 s, with members 2 to `last`.
struct Claims {
  explicit Claims(std::uint64_t last)
      : view{.options = {}, .identity = &identity_of(1), .self = member(1), .random = Random(1)},
        credit(view) {
    for (std::uint64_t k = 2; k <= last; ++k) {
      Record record;
      record.member = member(k);
      view.members.insert(record);
    }
  }
  bool accept(Instant now, std::uint64_t k, std::uint64_t samples, By by) {
    return credit.accept(now, *view.members.find(PeerId{k}), samples, by);
  }
  // Whether exactly this is the most that may be claimed. The larger claim comes first: it leaves no trace.
  bool is_most(Instant now, std::uint64_t k, std::uint64_t samples, By by) {
    return !accept(now, k, samples + 1, by) && accept(now, k, samples, by);
  }
  // These members make that many samples a second, by their own account, for ten seconds.
  void train(const std::map<std::uint64_t, std::uint64_t>& speeds) {
    for (std::uint64_t s = 0; s <= 10; ++s)
      for (const auto& [k, speed] : speeds)
        REQUIRE(accept(at(std::chrono::seconds(s)), k, speed * s, kItself));
  }

  LocalView view;
  Credit credit;
};

constexpr std::uint64_t kSlack = Credit::kSlack;

}  // namespace

TEST_CASE("before any speed is known a member may claim a hundred million samples a second") {
  Claims claims(3);
  CHECK(claims.is_most(at(0s), 2, kSlack, kItself));
  CHECK(claims.is_most(at(10s), 3, kSlack + 10 * 100'000'000ULL, kItself));
  // From then on, from its last claim.
  CHECK(claims.is_most(at(10s + 500ms), 3, kSlack + 10 * 100'000'000ULL + kSlack + 50'000'000, kItself));
}

TEST_CASE("before any speed is known others can say almost nothing about a member's samples") {
  Claims claims(2);
  CHECK(claims.is_most(at(0s), 2, kSlack, kOthers));
  CHECK(claims.is_most(at(1000s), 2, kSlack, kOthers));
}

TEST_CASE("claims may grow by a thousand times this peer's speed, and those of others by four times") {
  Claims claims(3);
  for (std::uint64_t s = 0; s <= 10; ++s) claims.credit.own(at(std::chrono::seconds(s)), 5000 * s);
  CHECK(claims.is_most(at(10s), 2, kSlack + 4 * 5000 * 10, kOthers));
  CHECK(claims.is_most(at(10s), 3, kSlack + 1000 * 5000 * 10, kItself));
}

TEST_CASE("what others say of a member counts from what it said last, and repeating it gains nothing") {
  Claims claims(4);
  claims.train({{2, 100}, {3, 100}, {4, 100}});
  const std::uint64_t most = 1000 + kSlack + 4 * 100 * 5;
  for (int k = 0; k < 10; ++k) CHECK(claims.is_most(at(15s), 2, most, kOthers));
  CHECK(claims.is_most(at(16s), 2, most + 4 * 100, kOthers));
  REQUIRE(claims.accept(at(16s), 2, 1600, kItself));
  CHECK(claims.is_most(at(16s), 2, 1600 + kSlack, kOthers));
}

TEST_CASE("a minority of members that claim to be fast does not change what others may claim") {
  Claims claims(9);  // 9 has not said anything
  claims.train({{2, 100}, {3, 90'000}, {4, 100}, {5, 90'000}, {6, 100}, {7, 100}, {8, 100}});
  CHECK(claims.is_most(at(12s), 9, kSlack + 4 * 100 * 12, kOthers));
  Claims honest(9);
  honest.train({{2, 100}, {3, 100}, {4, 100}, {5, 100}, {6, 100}, {7, 100}, {8, 100}});
  CHECK(honest.is_most(at(12s), 9, kSlack + 4 * 100 * 12, kOthers));
  // A majority moves the median.
  Claims lost(9);
  lost.train({{2, 100}, {3, 90'000}, {4, 90'000}, {5, 90'000}, {6, 100}});
  CHECK(lost.is_most(at(12s), 9, kSlack + 4 * 90'000 * 12, kOthers));
}

TEST_CASE("a member is not compared with itself: it cannot raise its own limit") {
  Claims claims(3);
  std::uint64_t claimed = 0;
  for (std::uint64_t s = 0; s <= 3; ++s) {
    CHECK(claims.accept(at(std::chrono::seconds(s)), 3, 10 * s, kItself));
    CHECK(claims.accept(at(std::chrono::seconds(s)), 2, claimed = 1'000'000 * s, kItself));
  }
  // Of two speeds, the lower is the median; slow ones count as a thousand a second.
  CHECK(claims.is_most(at(4s), 2, claimed + kSlack + 1'000'000, kItself));

  Claims alone(2);
  for (std::uint64_t s = 0; s <= 3; ++s)
    CHECK(alone.accept(at(std::chrono::seconds(s)), 2, claimed = 1'000'000 * s, kItself));
  CHECK(alone.is_most(at(4s), 2, claimed + kSlack + 100'000'000, kItself));
}

TEST_CASE("at first contact a member may have trained since the run began") {
  Claims claims(4);
  claims.view.run_start = at(0s) - 3600s;
  for (std::uint64_t s = 0; s <= 5; ++s) claims.credit.own(at(std::chrono::seconds(s)), 2000 * s);
  CHECK(claims.is_most(at(5s), 2, kSlack + 4 * 2000 * 3605ULL, kOthers));
  CHECK(claims.is_most(at(5s), 3, kSlack + 1000 * 2000 * 3605ULL, kItself));
  claims.view.run_start = at(100s);  // a clock that is wrong
  CHECK(claims.is_most(at(5s), 4, kSlack, kOthers));
}

TEST_CASE("a restarted member that learns what it consumed before may claim that at once") {
  Claims claims(2);
  claims.train({{2, 600}});  // up to 10 s
  REQUIRE(claims.accept(at(60s), 2, 0, kItself));
  CHECK(claims.accept(at(60s + 1ms), 2, 600 * 50, kItself));
  // The bound is that of the time since its last claim, as if it had not restarted.
  Claims others(2);
  others.train({{2, 600}});
  REQUIRE(others.accept(at(60s), 2, 0, kItself));
  CHECK(others.is_most(at(60s), 2, 6000 + kSlack + 50 * 100'000'000ULL, kItself));
}

TEST_CASE("an impossible claim is not counted and leaves no trace; the notice comes once") {
  Table table;
  table.learn(2, 4);
  const auto boasts = [&](Instant when, std::uint64_t samples) {
    wire::Member m = member(2);
    m.samples = samples;
    table.says(when, 2, m);
    return table.record(2).samples;
  };
  REQUIRE(boasts(at(1s), 100) == 100);
  for (int k = 2; k < 10; ++k) REQUIRE(boasts(at(std::chrono::seconds(k)), UINT64_MAX) == 100);
  REQUIRE(noticed(table.out, Notice::What::incredible) == std::vector{PeerId{2}});
  REQUIRE(boasts(at(10s), 1000) == 1000);
  // As progress, and about another one.
  for (const std::uint64_t k : {2, 3}) {
    table.membership.on(at(11s), PeerId{2}, address_of(2), wire::Gossip{{}, false, {{PeerId{k}, UINT64_MAX}}},
                        table.out);
  }
  REQUIRE(table.membership.swarm_samples() == 1000);
  REQUIRE(noticed(table.out, Notice::What::incredible).size() == 1);
}

TEST_CASE("a member's first claim is bounded too") {
  Table table;
  auto m = member(2);
  m.samples = UINT64_MAX;
  table.says(at(1s), 2, m);
  REQUIRE(table.knows(2));
  REQUIRE(table.record(2).samples == 0);
  REQUIRE(table.membership.swarm_samples() == 0);
  REQUIRE(noticed(table.out, Notice::What::incredible) == std::vector{PeerId{2}});
}

}  // namespace starling::gossip
