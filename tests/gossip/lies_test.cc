// What members may say about others and about themselves without being believed, and two live peers that
// advertise one address.
#include <functional>

#include "tests/catch.h"
#include "tests/gossip/table.h"

namespace starling::gossip {

using wire::Liveness;
using wire::Member;
using wire::Phase;

namespace {

Member claimed(std::uint64_t k, Liveness liveness, std::uint64_t accuser = 0) {
  Member m = member(k);
  m.liveness = liveness;
  m.accuser = PeerId{accuser};
  return m;
}

// The parts of a Membership, without the probes that its timers send.
struct States {
  explicit States(std::uint64_t last)
      : view{.options = {}, .identity = &identity_of(1), .self = member(1), .random = Random(1)} {
    for (std::uint64_t k = 2; k <= last; ++k) says(at(0s), k, member(k));
  }
  void says(Instant now, std::uint64_t teller, const Member& m) {
    states.merge(now, PeerId{teller}, {&m, 1}, out);
  }
  Record& record(std::uint64_t k) { return *view.members.find(PeerId{k}); }

  LocalView view;
  Rumors rumors{view};
  Retries retries{view};
  Views views{view};
  Prober prober{view, rumors};
  MemberStates states{view, rumors, retries, views, prober};
  std::vector<Action> out;
};

// Peer 1, and the peers 2 and 9, which both advertise the address of 2.
struct Conflict {
  Conflict() {
    table.learn(2, 3);
    table.membership.heard(at(0s), PeerId{2}, shared, table.out);
    ninth.address = shared;
    ninth = by_itself(ninth);
    table.out.clear();
    hears_ninth(at(1s));
  }
  void hears(Instant now, const Member& from) {
    table.membership.on(now, from.id, shared, wire::Gossip{{from}, false, {}}, table.out);
  }
  void hears_second(Instant now) { hears(now, second); }
  void hears_ninth(Instant now) { hears(now, ninth); }
  std::size_t notices() const { return noticed(table.out, Notice::What::conflict).size(); }

  Address shared = address_of(2);
  Table table;
  Member second = member(2), ninth = member(9);
};

}  // namespace

TEST_CASE("left, phase, address, name and incarnation count only with the member's own signature") {
  const std::vector<std::function<void(Member&)>> lies = {
      [](Member& m) { m.liveness = Liveness::left; },
      [](Member& m) { m.liveness = Liveness::left, m.incarnation = UINT32_MAX; },
      [](Member& m) { m.phase = Phase::finished; },
      [](Member& m) { ++m.incarnation; },
      [](Member& m) { ++m.incarnation, m.address = address_of(7); },
      [](Member& m) { ++m.incarnation, m.name = "other"; },
      [](Member& m) { ++m.incarnation, m.http = "p7:80", m.device = "cuda:0"; },
      [](Member& m) { ++m.incarnation, m.signature = identity_of(3).sign(statement_of(m)); },
      [](Member& m) {
        ++m.incarnation, m.key = identity_of(3).key();
        m.signature = identity_of(3).sign(statement_of(m));
      },
  };
  for (std::size_t k = 0; k < lies.size(); ++k) {
    CAPTURE(k);
    for (const std::uint64_t teller : {2, 3}) {  // not even from the member: the next one could not verify it
      Table table;
      table.learn(2, 4);
      const Member before = table.record(2);
      const auto version = table.membership.version();
      Member lie = before;
      lies[k](lie);
      table.says(at(1s), teller, lie);
      CHECK(table.record(2) == before);
      CHECK(table.membership.version() == version);
    }
  }
}

TEST_CASE("a signed statement counts from any teller; an older one that is replayed does not") {
  Table table;
  table.learn(2, 4);
  Member moved = member(2, Phase::settling);
  moved.incarnation = 1;
  moved.address = address_of(7);
  const Member left = said_to_be(member(2, Phase::settling), Liveness::left, 0);
  table.says(at(1s), 3, by_itself(moved));
  REQUIRE(table.record(2).address == address_of(7));
  REQUIRE(table.record(2).phase == Phase::settling);
  table.says(at(2s), 3, left);
  table.says(at(2s), 3, member(2));
  REQUIRE(table.record(2) == by_itself(moved));
  table.says(at(3s), 4, said_to_be(moved, Liveness::left, 1));
  REQUIRE(table.liveness(2) == Liveness::left);
  // A member that left may come back, with a higher incarnation.
  table.says(at(4s), 4, said_to_be(moved, Liveness::alive, 2));
  REQUIRE(table.liveness(2) == Liveness::alive);
}

TEST_CASE("a Leave counts with its sender's signature") {
  Table table;
  table.learn(2, 3);
  const auto says_goodbye = [&](std::uint64_t from, const Member& self) {
    table.membership.on(at(1s), PeerId{from}, address_of(from), wire::Leave{self}, table.out);
    return table.liveness(2) == Liveness::left;
  };
  const Member goodbye = said_to_be(member(2), Liveness::left);
  CHECK_FALSE(says_goodbye(2, claimed(2, Liveness::left)));
  CHECK_FALSE(says_goodbye(3, goodbye));  // others pass it on as news
  CHECK(says_goodbye(2, goodbye));
}

TEST_CASE("a member that only others accuse is pinged at once, and is alive when it answers") {
  for (const Liveness lie : {Liveness::suspect, Liveness::failed}) {
    Table table;
    table.learn(2, 5);
    table.out.clear();
    for (const std::uint64_t liar : {3, 4, 5}) table.says(at(10s), liar, claimed(2, lie, liar));
    REQUIRE(table.liveness(2) == Liveness::suspect);
    REQUIRE(table.membership.find(PeerId{2})->responds());
    REQUIRE(table.membership.find(PeerId{2})->may_exchange(at(10s)));
    const auto pings = sent<wire::Ping>(table.out);
    REQUIRE(pings.size() == 1);
    REQUIRE(pings[0].second.target == PeerId{2});
    table.membership.on(at(10'100ms), PeerId{2}, address_of(2), wire::Ack{pings[0].second.sequence, {}, {}},
                        table.out);
    REQUIRE(table.liveness(2) == Liveness::alive);
  }
}

TEST_CASE("accusations without end do not make a member fail that answers") {
  Table table;
  table.learn(2, 12);
  std::set<std::uint64_t> everyone;
  for (std::uint64_t k = 2; k <= 12; ++k) everyone.insert(k);
  const auto answer = [&](Instant now) {
    for (const auto& [to, ping] : sent<wire::Ping>(std::exchange(table.out, {})))
      table.membership.on(now, ping.target, to, wire::Ack{ping.sequence, {}, {}}, table.out);
    REQUIRE(noticed(table.out, Notice::What::failed).empty());
  };
  for (Instant now = at(0s); now < at(120s); now = now + 50ms) {
    for (const std::uint64_t liar : {3, 4, 5, 6})
      table.says(now, liar,
                 claimed(2, now.since_start.count() % 3 == 0 ? Liveness::failed : Liveness::suspect));
    answer(now);
    table.run(now, everyone);
    REQUIRE(table.membership.find(PeerId{2})->responds());
  }
}

TEST_CASE("a member that others accuse and that does not answer this peer either fails") {
  Table table;
  table.learn(2, 5);
  table.says(at(0s), 3, claimed(2, Liveness::suspect, 3));
  table.run(at(999ms), {3, 4, 5});
  REQUIRE(table.membership.find(PeerId{2})->responds());
  table.run(at(1s), {3, 4, 5});
  REQUIRE_FALSE(table.membership.find(PeerId{2})->responds());
  table.run(at(5s), {3, 4, 5});
  REQUIRE(table.liveness(2) == Liveness::failed);
}

TEST_CASE("when its window has passed, a suspect that did not fail to answer this peer is alive") {
  for (const bool is_silent : {false, true}) {
    States states(5);
    for (const std::uint64_t liar : {3, 4, 5}) states.says(at(0s), liar, claimed(2, Liveness::failed, liar));
    if (is_silent) states.states.unreachable(at(1s), {PeerId{2}, address_of(2)}, states.out);
    states.states.tick(at(3999ms), states.out);
    REQUIRE(states.record(2).member.liveness == Liveness::suspect);
    states.states.tick(at(4s), states.out);
    REQUIRE(states.record(2).member.liveness == (is_silent ? Liveness::failed : Liveness::alive));
  }
}

TEST_CASE("invented accusers count as the one that names them") {
  States states(1000);
  states.states.unreachable(at(0s), {PeerId{2}, address_of(2)}, states.out);
  for (std::uint64_t invented = 5000; invented < 5010; ++invented)
    states.says(at(0s), 3, claimed(2, Liveness::suspect, invented));
  states.says(at(0s), 3, claimed(2, Liveness::suspect, 1));  // this peer decides for itself
  REQUIRE(states.record(2).accuser_count == 2);
  REQUIRE(states.states.next_deadline() == at(9s));  // of two accusers
}

TEST_CASE("claims of strangers, of the member itself and about other incarnations are ignored") {
  Table table;
  table.learn(3, 4);
  table.tell(at(0s), said_to_be(member(2), Liveness::alive, 5));
  Member lie = claimed(2, Liveness::failed);
  lie.incarnation = 5;
  table.says(at(1s), 99, lie);
  table.says(at(1s), 2, lie);
  lie.incarnation = 4;
  table.says(at(1s), 3, lie);
  lie.incarnation = 6;
  table.says(at(1s), 3, lie);
  REQUIRE(table.liveness(2) == Liveness::alive);
  REQUIRE(table.record(2).incarnation == 5);
}

TEST_CASE("figures of a sender that is not a member do not count") {
  Table table;
  table.learn(2, 2);
  wire::Gossip gossip{{}, false, {{PeerId{2}, 100}}};
  gossip.vitals = {{RecentFigures{}, PeerId{2}, 1, {}, {}}};
  table.membership.on(at(1s), PeerId{99}, address_of(99), gossip, table.out);
  CHECK(table.membership.swarm_samples() == 0);
  CHECK_FALSE(table.membership.find(PeerId{2})->vitals);
  table.membership.on(at(1s), PeerId{2}, address_of(2), gossip, table.out);
  CHECK(table.membership.swarm_samples() == 100);
  CHECK(table.membership.find(PeerId{2})->vitals);
}

TEST_CASE("nobody pins another member's figures: its number grows by a thousand at most, unless it says so") {
  Table table;
  table.learn(2, 4);
  const auto numbered = [&](std::uint64_t from, std::uint32_t sequence) {
    wire::Gossip gossip;
    gossip.vitals = {{RecentFigures{}, PeerId{2}, sequence, {}, {}}};
    table.membership.on(at(1s), PeerId{from}, address_of(from), gossip, table.out);
    const auto& vitals = table.membership.find(PeerId{2})->vitals;
    return vitals ? vitals->sequence : 0;
  };
  CHECK(numbered(3, UINT32_MAX) == 0);
  CHECK(numbered(3, 1001) == 0);
  CHECK(numbered(3, 5) == 5);
  CHECK(numbered(3, 5) == 5);
  CHECK(numbered(3, 1006) == 5);
  CHECK(numbered(3, 1005) == 1005);
  CHECK(numbered(4, 7) == 1005);
  CHECK(numbered(2, 7) == 7);  // after its own word others may go on from there
  CHECK(numbered(4, 8) == 8);
  CHECK(numbered(2, 5000) == 5000);
}

// ---- one address of two live peers ----

TEST_CASE("a superseded member that is heard again recovers, and both are told of the conflict") {
  Conflict conflict;
  Table& table = conflict.table;
  REQUIRE(table.liveness(2) == Liveness::failed);
  REQUIRE(table.membership.find(PeerId{2})->superseded);
  REQUIRE(conflict.notices() == 0);
  table.out.clear();
  conflict.hears_second(at(3s));
  REQUIRE_FALSE(table.membership.find(PeerId{2})->superseded);
  REQUIRE(noticed(table.out, Notice::What::conflict) == std::vector{PeerId{2}});
  std::set<PeerId> told;
  for (const Send& send : all<Send>(table.out)) {
    const auto* refusal = std::get_if<wire::Refusal>(&send.message);
    if (refusal == nullptr) continue;
    CHECK(refusal->reason == wire::RefusalReason::address_taken);
    CHECK(send.to.address == conflict.shared);
    told.insert(send.to.id);
  }
  REQUIRE(told == std::set{PeerId{2}, PeerId{9}});
  // It hears that it is considered failed, refutes that, and both stay.
  REQUIRE(sent<wire::Gossip>(table.out).at(0).second.members.at(0).liveness == Liveness::failed);
  conflict.second = said_to_be(conflict.second, Liveness::alive, 1);
  conflict.hears_second(at(4s));
  REQUIRE(table.liveness(2) == Liveness::alive);
  REQUIRE(table.liveness(9) == Liveness::alive);
}

TEST_CASE("a superseded member that left and is back in a later incarnation has not left that one") {
  Conflict conflict;
  Table& table = conflict.table;
  REQUIRE(table.membership.find(PeerId{2})->superseded);
  table.says(at(2s), 2, by_itself(said_to_be(conflict.second, Liveness::left)));
  REQUIRE(table.liveness(2) == Liveness::left);
  table.says(at(3s), 3, by_itself(said_to_be(conflict.second, Liveness::alive, 1)));
  REQUIRE(table.record(2).incarnation == conflict.second.incarnation + 1);
  REQUIRE(table.liveness(2) == Liveness::failed);
  // It is told so, refutes that, and is back.
  for (const std::uint32_t incarnation : {1, 2}) {
    conflict.second = said_to_be(conflict.second, Liveness::alive, incarnation);
    conflict.hears_second(at(4s));
  }
  REQUIRE(table.liveness(2) == Liveness::alive);
}

TEST_CASE("a conflict changes the members' states once, even if only one of them can be reached") {
  for (const bool is_reached : {true, false}) {
    Conflict conflict;
    Table& table = conflict.table;
    conflict.hears_second(at(3s));
    conflict.second = said_to_be(conflict.second, Liveness::alive, 1);
    conflict.hears_second(at(4s));
    table.out.clear();
    for (Instant now = at(5s); now < at(600s); now = now + 500ms) {
      if (!is_reached) table.membership.unreachable(now, {PeerId{9}, conflict.shared}, table.out);
      conflict.hears_ninth(now);
      conflict.hears_second(now);
      REQUIRE(table.liveness(2) == Liveness::alive);
      REQUIRE(table.liveness(9) == Liveness::alive);
    }
    REQUIRE(conflict.notices() == 0);
    REQUIRE(noticed(table.out, Notice::What::failed).empty());
  }
}

TEST_CASE("a conflict ends when one of the two leaves") {
  Conflict conflict;
  conflict.hears_second(at(3s));
  conflict.ninth = said_to_be(conflict.ninth, Liveness::left);
  conflict.hears_ninth(at(4s));
  conflict.second = said_to_be(conflict.second, Liveness::alive, 1);
  conflict.table.out.clear();
  for (Instant now = at(5s); now < at(300s); now = now + 1s) conflict.hears_second(now);
  REQUIRE(conflict.notices() == 0);
  REQUIRE(conflict.table.liveness(2) == Liveness::alive);
  REQUIRE(conflict.table.liveness(9) == Liveness::left);
}

TEST_CASE("a peer that is told of a conflict about its address reports it, once a minute, and goes on") {
  Table table;
  table.learn(2, 3);
  table.out.clear();
  table.membership.address_taken(at(1s), PeerId{99}, table.out);  // a stranger's word
  REQUIRE(table.out.empty());
  for (Instant now = at(1s); now < at(181s); now = now + 1s)
    table.membership.address_taken(now, PeerId{2}, table.out);
  REQUIRE(noticed(table.out, Notice::What::conflict) == std::vector(3, PeerId{1}));
  REQUIRE(all<Send>(table.out).empty());
  REQUIRE(table.membership.self().incarnation == 0);
}

TEST_CASE("signatures that a member passes on are verified at a bounded rate") {
  Table table;
  table.learn(2, 200);
  const auto reborn = [&](std::uint64_t first, std::uint64_t last, std::uint32_t incarnation) {
    std::vector<wire::Member> news;
    for (std::uint64_t k = first; k <= last; ++k)
      news.push_back(said_to_be(member(k), Liveness::alive, incarnation));
    return news;
  };
  const auto believed = [&](std::uint32_t incarnation) {
    return std::ranges::count_if(table.membership.others(), [incarnation](const Record& record) {
      return record.member.incarnation == incarnation;
    });
  };
  table.membership.merge(at(1s), PeerId{2}, reborn(3, 200, 1), table.out);
  REQUIRE(believed(1) >= 100);
  REQUIRE(believed(1) <= 128);
  table.membership.merge(at(10s), PeerId{2}, reborn(3, 200, 1), table.out);
  REQUIRE(believed(1) == 198);
  // A few false ones use up what a liar may say.
  std::vector<wire::Member> forged = reborn(3, 200, 2);
  for (wire::Member& m : forged) m.signature.bytes[0] ^= std::byte{1};
  table.membership.merge(at(20s), PeerId{2}, forged, table.out);
  table.membership.merge(at(20s), PeerId{2}, reborn(3, 200, 2), table.out);
  REQUIRE(believed(2) == 0);
  table.membership.merge(at(20s), PeerId{3}, reborn(4, 5, 2), table.out);
  REQUIRE(believed(2) == 2);
}

}  // namespace starling::gossip
