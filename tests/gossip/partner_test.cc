#include "gossip/meeting/partner.h"

#include <map>
#include <set>

#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

using wire::Liveness;
using wire::Phase;

namespace {

// Peer 1, with members that a test adds.
struct Swarm {
  explicit Swarm(const std::string& topology, Partners policy = Partners::uniform)
      : chooser(*topologies::Topology::parse(topology), policy, Random(5)) {
    membership.start(at(0s));
    membership.set_phase(Phase::training);
  }
  // What the member says about itself.
  void tell(const wire::Member& m) {
    const wire::Member by = by_itself(m);
    membership.merge(at(0s), m.id, {&by, 1}, out);
  }
  // It does not answer this peer.
  void suspect(std::uint64_t k) { membership.unreachable(at(0s), {PeerId{k}, address_of(k)}, out); }
  std::map<std::uint64_t, int> draw(int times) {
    std::map<std::uint64_t, int> drawn;
    for (int k = 0; k < times; ++k) {
      const auto partner = chooser.choose(at(0s), membership);
      ++drawn[partner ? partner->value : 0];
    }
    return drawn;
  }

  Membership membership{identity_of(1), member(1, Phase::joining), {}, Random(1)};
  PartnerChooser chooser;
  std::vector<Action> out;
};

}  // namespace

TEST_CASE("on a ring the partners are the two adjacent peers, in the order of the names") {
  Swarm swarm("ring");
  // The order of ids differs from that of names. Only names order the vertices, with p2 before p10.
  for (const auto& [id, name] : std::map<std::uint64_t, std::string>{{90, "p2"}, {70, "p10"}, {80, "p3"}}) {
    auto m = member(id);
    m.name = name;
    swarm.tell(m);
  }
  const auto drawn = swarm.draw(2000);  // p1 is between p10 and p2
  REQUIRE(drawn.size() == 2);
  REQUIRE(std::abs(drawn.at(90) - 1000) < 120);
  REQUIRE(std::abs(drawn.at(70) - 1000) < 120);
}

TEST_CASE("the share of its exchanges that a member begins with this peer follows from the graph") {
  for (const auto& [topology, expected] :
       std::map<std::string, double>{{"ring", 0.5}, {"complete", 0.2}, {"one-peer-exponential", 1.0 / 3}}) {
    INFO(topology);
    Swarm swarm(topology);
    for (std::uint64_t k = 2; k <= 6; ++k) swarm.tell(member(k));
    REQUIRE(std::abs(swarm.chooser.share_of(PeerId{6}, swarm.membership) - expected) < 1e-9);
  }
  Swarm ring("ring");
  for (std::uint64_t k = 2; k <= 6; ++k) ring.tell(member(k));
  REQUIRE(ring.chooser.share_of(PeerId{4}, ring.membership) == 0.2);  // no neighbor: one of five others
  REQUIRE(ring.chooser.share_of(PeerId{99}, ring.membership) == 0.2);
  ring.tell(said_to_be(member(2), Liveness::left));
  REQUIRE(ring.chooser.share_of(PeerId{3}, ring.membership) == 0.5);
  // The hub of a star serves all others; each of them has only the hub.
  Swarm star("star");
  for (std::uint64_t k = 2; k <= 5; ++k) star.tell(member(k));
  REQUIRE(star.chooser.share_of(PeerId{3}, star.membership) == 1);
}

TEST_CASE("every neighbor is drawn equally often") {
  Swarm swarm("complete");
  for (std::uint64_t k = 2; k <= 6; ++k) swarm.tell(member(k));
  const auto drawn = swarm.draw(10000);
  REQUIRE(drawn.size() == 5);
  for (const auto& [id, times] : drawn) REQUIRE(std::abs(times - 2000) < 200);
}

TEST_CASE("members that do not train yet, failed or left are not vertices of the graph") {
  Swarm swarm("ring");
  for (std::uint64_t k = 2; k <= 6; ++k) swarm.tell(member(k, k == 6 ? Phase::joining : Phase::training));
  auto drawn = swarm.draw(200);
  REQUIRE(drawn.contains(2));
  REQUIRE(drawn.contains(5));  // p6 has no parameters yet
  REQUIRE(drawn.size() == 2);
  for (const std::uint64_t k : {2, 5}) swarm.tell(said_to_be(member(k), Liveness::left));
  drawn = swarm.draw(200);
  REQUIRE(drawn.contains(3));
  REQUIRE(drawn.contains(4));
  REQUIRE(drawn.size() == 2);
  swarm.tell(member(6, Phase::training));
  drawn = swarm.draw(200);
  REQUIRE(drawn.contains(3));
  REQUIRE(drawn.contains(6));
  REQUIRE(drawn.size() == 2);
}

TEST_CASE("a suspect keeps its place in the graph but is not chosen") {
  Swarm swarm("ring");
  for (std::uint64_t k = 2; k <= 4; ++k) swarm.tell(member(k));
  swarm.suspect(2);
  const auto drawn = swarm.draw(200);
  REQUIRE(drawn.size() == 1);
  REQUIRE(drawn.at(4) == 200);
}

TEST_CASE("a suspect that only others accuse is still chosen") {
  Swarm swarm("ring");
  for (std::uint64_t k = 2; k <= 4; ++k) swarm.tell(member(k));
  wire::Member accused = member(2);
  accused.liveness = Liveness::suspect;
  swarm.membership.merge(at(0s), PeerId{3}, {&accused, 1}, swarm.out);
  REQUIRE(swarm.membership.find(PeerId{2})->member.liveness == Liveness::suspect);
  REQUIRE(swarm.draw(200).contains(2));
  swarm.suspect(2);
  REQUIRE_FALSE(swarm.draw(200).contains(2));
}

TEST_CASE("a partner is avoided for a moment after a failed exchange, then for longer") {
  Swarm swarm("complete");
  swarm.tell(member(2));
  Duration before{0};
  for (int k = 0; k < 5; ++k) {
    swarm.membership.exchange_aborted(at(0s), PeerId{2});
    const Duration pause = swarm.membership.find(PeerId{2})->avoided_until - at(0s);
    REQUIRE_FALSE(swarm.chooser.choose(at(0s), swarm.membership));
    REQUIRE(swarm.chooser.choose(at(pause), swarm.membership) == PeerId{2});
    REQUIRE(pause > before);
    before = pause;
  }
  for (int k = 0; k < 100; ++k) swarm.membership.exchange_aborted(at(0s), PeerId{2});
  REQUIRE(swarm.membership.find(PeerId{2})->avoided_until <= at(6250ms));
  swarm.membership.exchange_completed(PeerId{2}, true);
  swarm.membership.exchange_aborted(at(0s), PeerId{2});
  REQUIRE(swarm.membership.find(PeerId{2})->avoided_until <= at(313ms));
}

TEST_CASE("a partner that poisons three times is quarantined for a while, and stays alive") {
  Swarm swarm("complete");
  swarm.tell(member(2));
  for (int k = 0; k < 3; ++k) {
    REQUIRE(swarm.chooser.choose(at(0s), swarm.membership));
    swarm.membership.poisoned_by(at(0s), PeerId{2}, swarm.out);
  }
  REQUIRE(noticed(swarm.out, Notice::What::quarantined) == std::vector{PeerId{2}});
  REQUIRE_FALSE(swarm.chooser.choose(at(59s), swarm.membership));
  REQUIRE(swarm.membership.find(PeerId{2})->is_live());
  REQUIRE(swarm.chooser.choose(at(60s), swarm.membership));
}

TEST_CASE("settling and finished members are still partners") {
  Swarm swarm("complete");
  swarm.tell(member(2, Phase::settling));
  swarm.tell(member(3, Phase::finished));
  const auto drawn = swarm.draw(200);
  REQUIRE(drawn.contains(2));
  REQUIRE(drawn.contains(3));
}

TEST_CASE("there is no partner for a lone peer, or if all others are suspect") {
  Swarm swarm("exponential");
  REQUIRE_FALSE(swarm.chooser.choose(at(0s), swarm.membership));
  swarm.tell(member(2));
  REQUIRE(swarm.chooser.choose(at(0s), swarm.membership));
  swarm.suspect(2);
  REQUIRE_FALSE(swarm.chooser.choose(at(0s), swarm.membership));
}

TEST_CASE("rounds of a time-varying topology are drawn equally often, except those without a link") {
  constexpr std::uint32_t kPeers = 7, kOwn = kPeers - 1;  // the last peer has no link in some rounds
  Swarm swarm("base:k=1");
  for (std::uint64_t k = 2; k <= kPeers; ++k) {
    auto m = member(k);
    m.name = std::string(1, static_cast<char>('a' + k - 2));  // shorter than "p1", so sorted before it
    swarm.tell(m);
  }
  const auto schedule = topologies::Topology::parse("base:k=1")->among(kPeers);
  std::map<std::uint64_t, double> expected;
  double rounds = 0;
  for (std::uint64_t round = 0; round < schedule.period(); ++round) {
    const auto links = schedule.links(kOwn, round);
    rounds += links.empty() ? 0 : 1;
    for (const auto& link : links) expected[link.peer + 2] += 1.0 / static_cast<double>(links.size());
  }
  REQUIRE(rounds < static_cast<double>(schedule.period()));
  const auto drawn = swarm.draw(20000);
  REQUIRE(drawn.size() == expected.size());
  for (const auto& [id, share] : expected) REQUIRE(std::abs(drawn.at(id) - 20000 * share / rounds) < 400);
}

TEST_CASE("turns choose every neighbor once before repeating one, and skip suspects") {
  Swarm swarm("complete", Partners::turns);
  for (std::uint64_t k = 2; k <= 6; ++k) swarm.tell(member(k));
  for (const auto& [id, times] : swarm.draw(500)) REQUIRE(times == 100);
  for (int k = 0; k < 20; ++k) REQUIRE(swarm.draw(5).size() == 5);
  swarm.suspect(4);
  const auto drawn = swarm.draw(400);
  REQUIRE(drawn.size() == 4);
  for (const auto& [id, times] : drawn) REQUIRE(std::abs(times - 100) <= 100);
  for (std::uint64_t k : {2, 3, 5, 6}) swarm.suspect(k);
  REQUIRE_FALSE(swarm.chooser.choose(at(0s), swarm.membership));
}

TEST_CASE("turns follow the rounds of a time-varying topology") {
  Swarm swarm("one-peer-exponential", Partners::turns);
  for (std::uint64_t k = 2; k <= 8; ++k) swarm.tell(member(k));
  for (int period = 0; period < 5; ++period)
    for (const std::uint64_t hop : {1, 2, 4})
      REQUIRE(swarm.chooser.choose(at(0s), swarm.membership) == PeerId{1 + hop});
}

TEST_CASE("aware draws fast neighbors more often, and each at least a quarter as often as uniform") {
  Swarm swarm("complete", Partners::aware);
  for (std::uint64_t k = 2; k <= 5; ++k) swarm.tell(member(k));
  for (std::uint64_t k = 2; k <= 5; ++k)
    swarm.chooser.met(swarm.membership, PeerId{k}, k == 2 ? Duration{10ms} : Duration{1s});
  const auto drawn = swarm.draw(20000);
  // A quarter is divided evenly, the rest in the ratio 1 : 1/100 : 1/100 : 1/100.
  REQUIRE(std::abs(drawn.at(2) - 20000 * (0.25 / 4 + 0.75 / 1.03)) < 300);
  for (std::uint64_t k = 3; k <= 5; ++k)
    REQUIRE(std::abs(drawn.at(k) - 20000 * (0.25 / 4 + 0.75 * 0.01 / 1.03)) < 200);
}

TEST_CASE("aware draws neighbors that have trained since the last exchange more often") {
  Swarm swarm("complete", Partners::aware);
  const auto progressed = [](std::uint64_t k, std::uint64_t samples) {
    auto m = member(k);
    m.samples = samples;
    return m;
  };
  for (std::uint64_t k = 2; k <= 4; ++k) swarm.tell(progressed(k, 100));
  for (std::uint64_t k = 2; k <= 4; ++k) swarm.chooser.met(swarm.membership, PeerId{k}, std::nullopt);
  swarm.tell(progressed(2, 500));
  swarm.tell(progressed(3, 200));  // p4 makes no progress
  const auto drawn = swarm.draw(20000);
  REQUIRE(std::abs(drawn.at(2) - 20000 * (0.25 / 3 + 0.75 * 0.8)) < 300);
  REQUIRE(std::abs(drawn.at(3) - 20000 * (0.25 / 3 + 0.75 * 0.2)) < 300);
  REQUIRE(std::abs(drawn.at(4) - 20000 * (0.25 / 3)) < 200);
}

TEST_CASE("aware draws all neighbors equally often without measurements") {
  Swarm swarm("complete", Partners::aware);
  for (std::uint64_t k = 2; k <= 6; ++k) swarm.tell(member(k));
  for (const auto& [id, times] : swarm.draw(10000)) REQUIRE(std::abs(times - 2000) < 200);
}

TEST_CASE("the exchange times of a departed member are discarded") {
  Swarm swarm("complete", Partners::aware);
  for (std::uint64_t k = 2; k <= 3; ++k) swarm.tell(member(k));
  swarm.chooser.met(swarm.membership, PeerId{2}, Duration{1s});
  swarm.chooser.met(swarm.membership, PeerId{3}, Duration{10ms});
  swarm.tell(said_to_be(member(3), Liveness::left));
  REQUIRE(swarm.draw(10).at(2) == 10);
  swarm.chooser.met(swarm.membership, PeerId{77}, Duration{1s});  // not a member
  swarm.tell(member(4));
  const auto drawn = swarm.draw(10000);  // one measured as slow, one not measured and treated as equally fast
  REQUIRE(std::abs(drawn.at(2) - 5000) < 300);
}

TEST_CASE("members that introduce themselves and do nothing else are partners only while they are few") {
  for (const std::uint64_t fresh : {16, 17, 400}) {
    Life life;
    life.trains(rules_of({Pace::Kind::steps, 1, {}}), {2, 3});
    life.waits(life.now + 5s, {2, 3});  // they have answered pings
    for (std::uint64_t k = 100; k < 100 + fresh; ++k) life.meets(member(k));
    std::set<std::uint64_t> partners;
    for (std::uint64_t steps = 1; steps <= 60; ++steps) {
      for (const BeginExchange& it : all<BeginExchange>(life.happens(Stepped{steps, steps}))) {
        partners.insert(it.partner.id.value);
        life.happens(ExchangeEnded{it.exchange, Outcome::completed});
      }
    }
    INFO("newcomers " << fresh);
    CHECK((partners == std::set<std::uint64_t>{2, 3}) == (fresh > 16));
    // One that exchanges is a vertex at once.
    life.happens(ExchangeOffered{PeerId{100}, 1});
    life.happens(AnswerEnded{PeerId{100}, 1});
    for (std::uint64_t steps = 61; steps <= 160; ++steps) {
      for (const BeginExchange& it : all<BeginExchange>(life.happens(Stepped{steps, steps}))) {
        partners.insert(it.partner.id.value);
        life.happens(ExchangeEnded{it.exchange, Outcome::completed});
      }
    }
    CHECK(partners.contains(100));
  }
}

}  // namespace starling::gossip
