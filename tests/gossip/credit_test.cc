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
  // Peers exchange with one another, and all members have.
  void take_part() {
    view.exchanges = true;
    for (std::uint64_t k = 2; k <= view.members.size() + 1; ++k) record(k).standing.works = true;
  }
  Record& record(std::uint64_t k) { return *view.members.find(PeerId{k}); }
  bool accept(Instant now, std::uint64_t k, std::uint64_t samples, By by) {
    Record& claimant = record(k);
    const bool works = by == kItself && claimant.standing.works;
    std::uint64_t counted = samples;
    if (credit.judge(now, claimant, counted, by, works) != Credit::Verdict::counts) return false;
    if (counted > claimant.member.samples) view.members.set_samples(now, claimant, counted);
    return counted == samples;
  }
  Credit::Verdict judge(Instant now, Record& claimant, std::uint64_t samples, By by, bool works) {
    return credit.judge(now, claimant, samples, by, works);
  }
  // Whether exactly this is the most that counts. The larger claim comes first: no more of it counts.
  bool is_most(Instant now, std::uint64_t k, std::uint64_t samples, By by) {
    return !accept(now, k, samples + 1, by) && accept(now, k, samples, by);
  }
  // These members make that many samples a second, by their own account, for ten seconds.
  void train(const std::map<std::uint64_t, std::uint64_t>& speeds) {
    for (std::uint64_t s = 0; s <= 10; ++s)
      for (const auto& [k, speed] : speeds) accept(at(std::chrono::seconds(s)), k, speed * s, kItself);
  }

  LocalView view;
  Credit credit;
};

constexpr std::uint64_t kSlack = Credit::kSlack;

}  // namespace

TEST_CASE("in its first second this peer's speed is known from its own steps") {
  Claims claims(2);
  claims.take_part();
  claims.credit.own(at(0s), 64);
  claims.credit.own(at(100ms), 64 + 40'000);  // 400,000 samples a second: a tenth of what others may claim
  CHECK(claims.is_most(at(100ms), 2, kSlack + 400'000, kItself));
  claims.credit.own(at(200ms), 64 + 80'000);
  CHECK(claims.is_most(at(200ms), 2, kSlack + 800'000, kItself));
}

TEST_CASE("before any speed is known a member counts at most 100,000 samples a second, for ten seconds") {
  Claims claims(3);
  claims.take_part();
  CHECK(claims.is_most(at(0s), 2, kSlack, kItself));
  CHECK(claims.is_most(at(5s), 3, kSlack + 500'000, kItself));
  CHECK(claims.is_most(at(5s + 500ms), 3, kSlack + 550'000, kItself));
  CHECK(claims.is_most(at(15s), 3, kSlack + 550'000, kItself));
}

TEST_CASE("before any speed is known others can say almost nothing about a member's samples") {
  Claims claims(2);
  CHECK(claims.is_most(at(0s), 2, kSlack, kOthers));
  CHECK(claims.is_most(at(1000s), 2, kSlack, kOthers));
}

TEST_CASE("claims count up to ten times this peer's speed, and those of others up to four times") {
  Claims claims(3);
  for (std::uint64_t s = 0; s <= 10; ++s) claims.credit.own(at(std::chrono::seconds(s)), 5000 * s);
  CHECK(claims.is_most(at(10s), 2, kSlack + 4 * 5000 * 10, kOthers));
  claims.take_part();
  CHECK(claims.is_most(at(10s), 3, kSlack + 10 * 5000 * 10, kItself));
  // What does not count waits; a thousand times that is a lie.
  CHECK(claims.judge(at(15s), claims.record(3), 1000 * 5000 * 5, kItself, true) == Credit::Verdict::counts);
  CHECK(claims.judge(at(15s), claims.record(3), 1000 * 5000 * 20, kItself, true) ==
        Credit::Verdict::impossible);
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
  CHECK(lost.accept(at(12s), 9, kSlack + 4 * 50'000 * 12, kOthers));
}

TEST_CASE("a member is not compared with itself: it cannot raise its own limit") {
  for (const bool exchanges : {false, true}) {
    Claims claims(3);
    claims.view.exchanges = exchanges;
    for (const std::uint64_t k : {2, 3}) claims.record(k).standing.works = true;
    const auto train = [&](std::uint64_t s) {
      claims.credit.own(at(std::chrono::seconds(s)), 1000 * s);
      claims.accept(at(std::chrono::seconds(s)), 3, 500 * s, kItself);
      claims.accept(at(std::chrono::seconds(s)), 2, 1'000'000 * s, kItself);
      return claims.record(2).member.samples;
    };
    std::uint64_t s = 0;
    while (s < 20) train(++s);
    const std::uint64_t before = train(++s);
    while (s < 31) train(++s);
    CHECK(claims.record(2).member.samples - before == (exchanges ? 10 : 1000) * 1000 * 10);
  }
}

TEST_CASE("where peers exchange, members are compared with the fastest other one that takes part") {
  Claims claims(4);
  claims.view.exchanges = true;
  claims.record(2).standing.works = claims.record(3).standing.works = true;
  std::uint64_t before = 0;
  for (std::uint64_t s = 1; s <= 40; ++s) {
    const Instant now = at(std::chrono::seconds(s));
    claims.credit.own(now, 100 * s);
    REQUIRE(claims.accept(now, 2, 3000 * s, kItself));
    claims.accept(now, 4, 1'000'000 * s, kItself);  // takes part in nothing
    claims.accept(now, 3, 1'000'000 * s, kItself);
    if (s == 30) before = claims.record(3).member.samples;
  }
  CHECK(claims.record(3).member.samples - before == 10 * 3000 * 10);
}

TEST_CASE("what a member consumed before this peer met it counts if two other members say so") {
  Claims claims(5);
  claims.view.run_start = at(0s) - 3600s;
  for (std::uint64_t s = 0; s <= 5; ++s) claims.credit.own(at(std::chrono::seconds(s)), 2000 * s);
  Record& fresh = claims.record(2);
  claims.credit.meet(at(5s), fresh);
  CHECK(claims.judge(at(5s), fresh, 1'000'000, kItself, true) == Credit::Verdict::waits);
  CHECK(claims.judge(at(5s), fresh, 1000 * 2000 * 3605ULL + 1, kItself, true) == Credit::Verdict::impossible);
  CHECK(claims.is_most(at(5s), 2, kSlack, kItself));

  Record& older = claims.record(3);
  claims.credit.meet(at(5s), older);
  for (int k = 0; k < 3; ++k) claims.credit.vouch(at(5s), older, PeerId{4}, 1'000'000);  // one member only
  CHECK(claims.is_most(at(5s), 3, kSlack, kOthers));
  claims.credit.vouch(at(6s), older, PeerId{5}, 900'000);
  CHECK(claims.is_most(at(5s), 3, 900'000, kItself));

  Record& invented = claims.record(4);
  claims.credit.meet(at(5s), invented);
  const std::uint64_t most = 4 * 2000 * 3605ULL;
  for (const std::uint64_t k : {2, 3}) claims.credit.vouch(at(5s), invented, PeerId{k}, most + 1);
  CHECK(claims.is_most(at(5s), 4, kSlack, kItself));

  Record& late = claims.record(5);
  claims.credit.meet(at(5s), late);
  for (const std::uint64_t k : {2, 3}) claims.credit.vouch(at(16s), late, PeerId{k}, 1'000'000);
  CHECK(late.standing.earlier == 0);
}

TEST_CASE("a member counts from when it trains, and an observer never") {
  Claims claims(3);
  claims.record(2).member.phase = wire::Phase::joining;
  claims.record(3).observes = true;
  for (const std::uint64_t k : {2, 3}) {
    CHECK(claims.accept(at(10s), k, 0, kItself));
    CHECK(claims.judge(at(20s), claims.record(k), 1, kItself, true) == Credit::Verdict::waits);
    CHECK(claims.judge(at(20s), claims.record(k), 1, kOthers, true) == Credit::Verdict::waits);
  }
  claims.record(2).member.phase = wire::Phase::training;
  CHECK(claims.accept(at(20s), 2, 1000, kItself));
}

TEST_CASE("a member without exchanges counts at most as much as those that work together") {
  Claims claims(5);
  claims.view.exchanges = true;
  claims.record(2).standing.works = true;
  for (std::uint64_t s = 0; s <= 10; ++s) {
    claims.credit.own(at(std::chrono::seconds(s)), 5000 * s);
    REQUIRE(claims.accept(at(std::chrono::seconds(s)), 2, 6000 * s, kItself));
  }
  Record& fresh = claims.record(3);
  claims.credit.meet(at(10s), fresh);
  for (std::uint64_t s = 11; s <= 20; ++s) {
    claims.credit.own(at(std::chrono::seconds(s)), 5000 * s);
    REQUIRE(claims.accept(at(std::chrono::seconds(s)), 2, 6000 * s, kItself));
    CHECK(claims.is_most(at(std::chrono::seconds(s)), 3, kSlack + 11'000 * (s - 10), kItself));
    // What it claims does not help another one.
    CHECK(claims.is_most(at(std::chrono::seconds(s)), 4, kSlack + 11'000 * s, kItself));
    CHECK(claims.is_most(at(std::chrono::seconds(s)), 4, kSlack + 11'000 * s, kOthers));
  }
  // A member that works has accepted more of it.
  CHECK(claims.judge(at(21s), fresh, 4'000'000, kItself, false) == Credit::Verdict::waits);
  CHECK(claims.judge(at(21s), fresh, 130'000, kOthers, false) == Credit::Verdict::waits);
  CHECK(claims.judge(at(21s), fresh, 130'000, kOthers, true) == Credit::Verdict::counts);
  // It takes part from now on.
  fresh.standing.works = true;
  CHECK(claims.accept(at(22s), 3, 500'000, kItself));
}

TEST_CASE("a restarted member that learns what it consumed before may claim that at once") {
  Claims claims(2);
  for (std::uint64_t s = 0; s <= 10; ++s) claims.credit.own(at(std::chrono::seconds(s)), 600 * s);
  claims.train({{2, 600}});  // up to 10 s
  REQUIRE(claims.accept(at(60s), 2, 0, kItself));
  CHECK(claims.accept(at(60s + 1ms), 2, 600 * 50, kItself));
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

TEST_CASE("the largest claims of one new member move the swarm's samples by less than the honest sum") {
  for (const wire::Phase phase : {wire::Phase::joining, wire::Phase::training, wire::Phase::finished}) {
    Table table;
    table.membership.prepared("cpu", true);
    table.learn(2, 4);
    for (const std::uint64_t k : {2, 3}) table.membership.exchange_completed(PeerId{k}, false);
    const auto train = [&](std::uint64_t second) {
      const Instant now = at(std::chrono::seconds(second));
      table.membership.set_progress(now, 10 * second, 1000 * second);
      for (std::uint64_t k = 2; k <= 4; ++k) {
        wire::Member m = member(k);
        m.samples = 1000 * second;
        table.says(now, k, m);
      }
    };
    for (std::uint64_t s = 1; s <= 600; ++s) train(s);
    REQUIRE(table.membership.swarm_samples() == 4 * 600'000);
    table.tell(at(600s), member(9, phase));
    for (std::uint64_t s = 601; s <= 630; ++s) {
      train(s);
      for (int halvings = 0; halvings < 64; ++halvings) {
        wire::Member m = member(9, phase);
        m.samples = UINT64_MAX >> halvings;
        table.says(at(std::chrono::seconds(s)), 9, m);
        wire::Gossip gossip{{}, false, {{PeerId{9}, m.samples}}};  // with an accomplice
        table.membership.on(at(std::chrono::seconds(s)), PeerId{4}, address_of(4), gossip, table.out);
      }
      const std::uint64_t honest = 4 * 1000 * s, since_it_came = 4 * 1000 * (s - 600);
      CHECK(table.membership.swarm_samples() <= honest + since_it_came + kSlack);
      if (phase == wire::Phase::joining) CHECK(table.membership.swarm_samples() == honest);
    }
  }
}

TEST_CASE("what the Welcome says of earlier samples counts at once, also of its sender") {
  Table table;
  table.membership.prepared("cpu", true);
  std::vector<wire::Member> members = {member(2), member(3)};
  members[0].samples = 5'000'000;
  members[1].samples = 7'000'000;
  table.membership.welcomed(at(0s), PeerId{2}, members, 1'000'000, table.out, std::chrono::hours(1));
  REQUIRE(table.membership.swarm_samples() == 13'000'000);
  table.introduce(at(1s), {member(3)});
  REQUIRE(table.knows(3));
  REQUIRE(table.membership.swarm_samples() == 13'000'000);
}

}  // namespace starling::gossip
