#include "gossip/members/membership.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/catch.h"
#include "tests/gossip/table.h"

namespace starling::gossip {

using wire::Liveness;
using wire::Phase;

TEST_CASE("a higher incarnation overrides a suspicion and a failure; a lower one has no effect") {
  for (const Liveness rumor : {Liveness::suspect, Liveness::failed}) {
    Table table;
    table.learn(2, 3);
    table.tell(at(0s), said_to_be(member(2), Liveness::suspect, 3));
    if (rumor == Liveness::failed) table.suspect(at(0s), 2);
    table.tell(at(3s), said_to_be(member(2), rumor, 3));
    table.tell(at(3s), said_to_be(member(2), Liveness::alive, 2));
    REQUIRE(table.liveness(2) == rumor);
    table.tell(at(3s), said_to_be(member(2), Liveness::alive, 4), 3);  // from another teller
    REQUIRE(table.liveness(2) == Liveness::alive);
    table.tell(at(3s), said_to_be(member(2), Liveness::left, 3));
    REQUIRE(table.liveness(2) == Liveness::alive);
    REQUIRE(table.record(2).incarnation == 4);
  }
}

TEST_CASE("a peer refutes false claims about itself by raising its incarnation") {
  for (const Liveness rumor : {Liveness::suspect, Liveness::failed, Liveness::left}) {
    Table table;
    table.learn(2, 2);
    wire::Member self = member(1);
    self.liveness = rumor;
    table.says(at(0s), 2, self);
    REQUIRE(table.membership.self().incarnation == 1);
    REQUIRE(table.membership.self().liveness == Liveness::alive);
    REQUIRE(is_authentic(identity_of(9), table.membership.self()));
    // The same rumor again, now outdated, changes nothing.
    table.says(at(10s), 2, self);
    REQUIRE(table.membership.self().incarnation == 1);
    // Neither does one about an incarnation that this peer never chose, or one of a stranger.
    self.incarnation = 7;
    table.says(at(10s), 2, self);
    self.incarnation = 1;
    table.says(at(10s), 9, self);
    REQUIRE(table.membership.self().incarnation == 1);
    REQUIRE_FALSE(table.knows(1));
  }
}

TEST_CASE("refutations are spaced, up to four seconds, and are quick again after a quiet time") {
  Table table;
  table.learn(2, 2);
  std::vector<Instant> refuted;
  const auto accuse_until = [&](Instant from, Instant until) {
    for (Instant now = from; now < until; now = now + 10ms) {
      wire::Member self = table.membership.self();
      self.liveness = Liveness::failed;
      table.says(now, 2, self);
      if (table.membership.self().incarnation > self.incarnation) refuted.push_back(now);
    }
  };
  accuse_until(at(0s), at(20s));
  const std::vector<Instant> expected{at(0s),     at(250ms),   at(750ms),   at(1750ms), at(3750ms),
                                      at(7750ms), at(11750ms), at(15750ms), at(19750ms)};
  REQUIRE(refuted == expected);
  refuted.clear();
  accuse_until(at(100s), at(101s));
  REQUIRE(refuted == std::vector{at(100s), at(100'250ms), at(100'750ms)});
}

TEST_CASE("the record of an earlier life raises the incarnation above it, only with this peer's signature") {
  Table table;
  table.learn(2, 2);
  table.says(at(0s), 2, said_to_be(member(1), Liveness::alive, 7));
  REQUIRE(table.membership.self().incarnation == 8);
  // An equal incarnation counts if that life got further: this one could not make its statement otherwise.
  table.says(at(1s), 2, said_to_be(member(1, Phase::finished), Liveness::alive, 8));
  REQUIRE(table.membership.self().incarnation == 9);
  REQUIRE(table.membership.self().phase == Phase::training);
  table.says(at(10s), 2, said_to_be(member(1, Phase::joining), Liveness::alive, 9));  // nothing to exceed
  REQUIRE(table.membership.self().incarnation == 9);
  table.says(at(20s), 2, said_to_be(member(1), Liveness::left, 9));  // that life left
  REQUIRE(table.membership.self().incarnation == 10);
  table.says(at(30s), 9, said_to_be(member(1), Liveness::alive, 20));  // a stranger's word
  REQUIRE(table.membership.self().incarnation == 10);
  auto forged = table.membership.self();
  forged.incarnation = 30;
  table.says(at(30s), 2, forged);
  REQUIRE(table.membership.self().incarnation == 10);
}

TEST_CASE("an incarnation never decreases or wraps") {
  Table table;
  table.learn(2, 2);
  table.says(at(0s), 2, said_to_be(member(1), Liveness::alive, UINT32_MAX));
  REQUIRE(table.membership.self().incarnation == UINT32_MAX);
  table.says(at(10s), 2, said_to_be(member(1), Liveness::failed, UINT32_MAX));
  REQUIRE(table.membership.self().incarnation == UINT32_MAX);
}

TEST_CASE("only the member itself raises its incarnation; suspicion and failure keep it") {
  Table table;
  table.tell(at(0s), said_to_be(member(2), Liveness::alive, 5));
  table.run(at(30s));
  REQUIRE(table.liveness(2) == Liveness::failed);
  REQUIRE(table.record(2).incarnation == 5);
}

TEST_CASE("a member that answers its probes is never suspected") {
  Table table;
  table.learn(2, 5);
  table.run(at(60s), {2, 3, 4, 5});
  REQUIRE(noticed(table.out, Notice::What::suspected).empty());
}

TEST_CASE("a direct message clears a suspicion; another member's claim with the same incarnation does not") {
  Table table;
  table.learn(2, 3);
  table.membership.unreachable(at(0s), {{}, address_of(2)}, table.out);
  REQUIRE(table.liveness(2) == Liveness::suspect);
  table.tell(at(1s), member(2));
  REQUIRE(table.liveness(2) == Liveness::suspect);
  table.membership.heard(at(1s), PeerId{3}, address_of(3), table.out);
  REQUIRE(table.liveness(2) == Liveness::suspect);
  table.membership.heard(at(1s), PeerId{2}, address_of(2), table.out);
  REQUIRE(table.liveness(2) == Liveness::alive);
  REQUIRE(noticed(table.out, Notice::What::recovered) == std::vector{PeerId{2}});
}

TEST_CASE("a member that left stays left, whatever others claim with the same incarnation") {
  Table table;
  table.learn(2, 2);
  table.tell(at(0s), said_to_be(member(2), Liveness::left));
  for (const Liveness rumor : {Liveness::alive, Liveness::suspect, Liveness::failed}) {
    table.tell(at(1s), said_to_be(member(2), rumor));
    REQUIRE(table.liveness(2) == Liveness::left);
  }
  table.membership.heard(at(1s), PeerId{2}, address_of(2), table.out);  // a message that was still in transit
  table.membership.unreachable(at(1s), {{}, address_of(2)}, table.out);
  table.run(at(120s));
  REQUIRE(table.liveness(2) == Liveness::left);
  REQUIRE_FALSE(table.pinged.contains(2));
}

TEST_CASE("the sum of samples includes members that failed or left, and never decreases") {
  Table table;
  auto told = [](std::uint64_t k, std::uint64_t samples) {
    auto m = member(k);
    m.samples = samples;
    m.steps = samples / 10;
    return m;
  };
  table.membership.set_progress(at(0s), 1, 10);
  table.tell(at(0s), told(2, 100));
  table.tell(at(0s), told(3, 200));
  REQUIRE(table.membership.swarm_samples() == 310);
  table.suspect(at(0s), 2);
  table.tell(at(0s), said_to_be(told(2, 120), Liveness::suspect));
  table.tell(at(3s), said_to_be(told(2, 120), Liveness::failed));
  REQUIRE(table.liveness(2) == Liveness::failed);
  table.tell(at(3s), said_to_be(told(3, 250), Liveness::left));
  REQUIRE(table.membership.swarm_samples() == 380);
  REQUIRE(table.record(3).steps == 20);  // steps are displayed as the member itself reports them
  // A claim with fewer samples, although with a higher incarnation, is ignored.
  table.tell(at(3s), said_to_be(told(3, 10), Liveness::alive, 1));
  table.membership.set_progress(at(3s), 0, 5);
  REQUIRE(table.membership.swarm_samples() == 380);
  REQUIRE(table.record(3).steps == 20);
  // A Welcome carries one sum for the members that were dead before this peer joined.
  table.tell(at(3s), said_to_be(told(4, 1000), Liveness::failed));
  REQUIRE(table.membership.swarm_samples() == 380);
  REQUIRE(table.membership.view().members.retired_samples({}) == 120);
  table.membership.welcomed(at(3s), PeerId{3}, {}, 1000, table.out);
  REQUIRE(table.membership.swarm_samples() == 1380);
  REQUIRE(table.membership.view().members.retired_samples({}) == 1120);
}

TEST_CASE("a phase only moves forward") {
  Table table;
  table.tell(at(0s), member(2, Phase::settling));
  table.tell(at(0s), member(2, Phase::training));
  REQUIRE(table.membership.find(PeerId{2})->member.phase == Phase::settling);
  const auto version = table.membership.version();
  table.tell(at(0s), member(2, Phase::finished));
  REQUIRE(table.membership.find(PeerId{2})->member.phase == Phase::finished);
  REQUIRE(table.membership.version() != version);
}

TEST_CASE("round-robin probing probes every member once in a round") {
  Table table;
  table.learn(2, 11);
  const std::set<std::uint64_t> everyone{2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  for (int round = 1; round <= 5; ++round) {
    table.run(at(10s * round), everyone);
    for (const auto k : everyone) REQUIRE(table.pinged[k].size() == static_cast<std::size_t>(round));
  }
}

TEST_CASE("a failed member is retried forever, with growing intervals") {
  Table table;
  table.learn(2, 2);
  table.run(at(10s));
  REQUIRE(table.liveness(2) == Liveness::failed);
  table.pinged.clear();
  const Instant before = at(10s);
  table.run(at(3600s));
  const auto& tries = table.pinged[2];
  REQUIRE(tries.size() > 3600 / 38);
  REQUIRE(tries.front() - before < 5s);
  for (std::size_t k = 1; k < tries.size(); ++k) {
    REQUIRE(tries[k] - tries[k - 1] >= 750ms);
    REQUIRE(tries[k] - tries[k - 1] <= 37'500ms);
  }
  REQUIRE(tries.back() - tries[tries.size() - 2] >= 22s);
}

TEST_CASE("a failed member that returns receives the claim, refutes it and is alive again") {
  Table here;
  Membership there(identity_of(2), member(2), {}, Random(2));
  there.start(at(0s));
  here.learn(2, 2);
  here.run(at(10s));
  REQUIRE(here.liveness(2) == Liveness::failed);
  here.out.clear();
  here.run(at(60s));
  const auto pings = sent<wire::Ping>(here.out);
  REQUIRE_FALSE(pings.empty());
  std::vector<Action> answer;
  there.on(at(60s), PeerId{1}, address_of(1), pings.back().second, answer);
  const auto acks = sent<wire::Ack>(answer);
  REQUIRE(acks.size() == 1);
  REQUIRE(acks[0].first == address_of(1));
  REQUIRE(acks[0].second.sequence == pings.back().second.sequence);
  here.membership.on(at(60s), PeerId{2}, address_of(2), acks[0].second, here.out);
  REQUIRE(here.liveness(2) == Liveness::alive);
}

TEST_CASE("a ping meant for an earlier instance at this address is not answered") {
  Table table;
  table.membership.on(at(1s), PeerId{2}, address_of(2), wire::Ping{1, PeerId{99}, {member(2)}}, table.out);
  REQUIRE(sent<wire::Ack>(table.out).empty());
  // The current instance sends its own record instead.
  const auto told = sent<wire::Gossip>(table.out);
  REQUIRE(told.size() == 1);
  REQUIRE(told[0].second.members == std::vector{table.membership.self()});
  REQUIRE(table.membership.find(PeerId{2}) != nullptr);
}

TEST_CASE("the next deadline is later than the last tick") {
  Table table;
  table.learn(2, 40);
  Instant now = at(0s);
  for (int k = 0; k < 5000; ++k) {
    now = table.membership.next_deadline();
    table.membership.tick(now, table.out);
    const PeerId from{2 + static_cast<std::uint64_t>(k) % 39};
    if (k % 7 == 0) table.membership.heard(now, from, address_of(from.value), table.out);
    // Failures in this tick shorten the suspicion windows, so a suspect may be overdue.
    if (table.membership.next_deadline() <= now) table.membership.tick(now, table.out);
    REQUIRE(table.membership.next_deadline() > now);
  }
}

TEST_CASE("the table of members is bounded") {
  MembershipOptions options;
  options.members_max = 10;
  Table table(options);
  auto m = member(2);
  m.samples = 1;
  for (std::uint64_t k = 2; k < 1000; ++k) {
    m.id = PeerId{k};
    table.tell(at(0s), m);
  }
  REQUIRE(table.membership.others().size() == 10);
  REQUIRE(table.membership.swarm_samples() == 10);
  // Existing members are still updated.
  table.tell(at(0s), said_to_be(member(2), Liveness::left));
  REQUIRE(table.liveness(2) == Liveness::left);
}

TEST_CASE("no member has the id 0") {
  Table table;
  table.tell(at(0s), wire::Member{});
  REQUIRE(table.membership.others().empty());
}

TEST_CASE("a goodbye is sent only to live members, with the liveness left") {
  Table table;
  table.learn(2, 4);
  table.tell(at(0s), said_to_be(member(3), Liveness::left));
  table.out.clear();
  table.membership.say_goodbye(table.out);
  const auto leaves = sent<wire::Leave>(table.out);
  REQUIRE(leaves.size() == 2);
  REQUIRE(leaves[0].first == address_of(2));
  REQUIRE(leaves[1].first == address_of(4));
  REQUIRE(leaves[0].second.self.id == PeerId{1});
  REQUIRE(leaves[0].second.self.liveness == Liveness::left);
}

TEST_CASE("a lone peer sends nothing") {
  Table table;
  table.run(at(100s));
  REQUIRE(table.out.empty());
}

}  // namespace starling::gossip
