#include "tests/catch.h"
#include "tests/gossip/life.h"

namespace starling::gossip {

namespace {

std::string follows(const Life& life) { return life.peer.view().topology->name(); }

wire::Rewire rewire(std::uint64_t number, const std::string& topology, std::uint64_t author = 9) {
  wire::Rewire rewire{{number, PeerId{author}}, topology, identity_of(author).key(), {}};
  rewire.signature = identity_of(author).sign(statement_of(rewire));
  return rewire;
}

}  // namespace

TEST_CASE("a topology that a user sets is followed at once and sent to others") {
  Life life;
  life.trains(rules_of(), {2, 3, 4});
  const auto told = life.happens(RewireRequested{"ring"});
  REQUIRE(follows(life) == "ring");
  REQUIRE(all<Rewired>(told).size() == 1);
  REQUIRE(all<Rewired>(told)[0].topology == "ring");
  const auto rewires = sent<wire::Rewire>(told);
  REQUIRE(rewires.size() == 3);
  for (const auto& [to, message] : rewires) REQUIRE(message == rewire(1, "ring", 1));
}

TEST_CASE(
    "an exchange in flight continues when the topology changes; the next one follows the new topology") {
  Life life;
  life.trains(rules_of({Pace::Kind::always, 0, {}}, {}, "complete"), {2, 3, 4, 5, 6});
  const auto begun = all<BeginExchange>(life.out);
  REQUIRE(begun.size() == 1);
  const auto changed = life.happens(RewireRequested{"ring"});
  REQUIRE(all<AbortExchange>(changed).empty());
  for (std::uint64_t k = 1; k <= 50; ++k) {
    const auto next = all<BeginExchange>(life.happens(ExchangeEnded{k, Outcome::completed}));
    REQUIRE(next.size() == 1);
    // On the ring p1 is between p2 and p6.
    REQUIRE((next[0].partner.id == PeerId{2} || next[0].partner.id == PeerId{6}));
  }
  REQUIRE(life.peer.view().exchanges.completed == 50);
  REQUIRE(life.peer.view().exchanges.aborted == 0);
}

TEST_CASE("a new topology is forwarded once; an older one is answered with the newer") {
  Life life;
  life.trains(rules_of(), {2, 3, 4});
  REQUIRE(sent<wire::Rewire>(life.hears(2, rewire(5, "ring"))).size() == 3);
  REQUIRE(follows(life) == "ring");
  REQUIRE(sent<wire::Rewire>(life.hears(3, rewire(5, "ring"))).empty());
  const auto answer = sent<wire::Rewire>(life.hears(4, rewire(4, "complete", 99)));
  REQUIRE(answer.size() == 1);
  REQUIRE(answer[0].first == address_of(4));
  REQUIRE(answer[0].second == rewire(5, "ring"));
  REQUIRE(follows(life) == "ring");
  // The next change has a higher revision and overrides it everywhere.
  REQUIRE(sent<wire::Rewire>(life.happens(RewireRequested{"exponential"}))[0].second ==
          rewire(6, "exponential", 1));
}

TEST_CASE("if two topologies are set at once, the same one wins for any order of arrival") {
  for (const bool turned : {false, true}) {
    Life life;
    life.trains(rules_of(), {2, 3});
    life.hears(2, turned ? rewire(1, "ring", 7) : rewire(1, "exponential", 8));
    life.hears(3, turned ? rewire(1, "exponential", 8) : rewire(1, "ring", 7));
    REQUIRE(follows(life) == "exponential");
  }
}

TEST_CASE("a peer with an older topology gets the newer one after its Digest or View") {
  Life life;
  life.trains(rules_of(), {2});
  life.hears(2, rewire(3, "ring"));
  const wire::Revision old{2, PeerId{50}}, same{3, PeerId{9}}, newer{4, PeerId{1}};
  const std::vector<std::uint64_t> buckets(wire::kDigestBuckets, 1);
  REQUIRE(sent<wire::Rewire>(life.hears(2, wire::Digest{buckets, old})).size() == 1);
  REQUIRE(sent<wire::Rewire>(life.hears(2, wire::View{0, false, {}, old})).size() == 1);
  REQUIRE(sent<wire::Rewire>(life.hears(2, wire::Digest{buckets, same})).empty());
  // A peer with a newer topology learns this peer's revision from the answer.
  const auto heard = life.hears(2, wire::Digest{buckets, newer});
  REQUIRE(sent<wire::Rewire>(heard).empty());
  REQUIRE(sent<wire::View>(heard).at(0).second.topology == same);
}

TEST_CASE("a joiner receives a topology set during the run, and follows it from its first exchange") {
  Life member_of_swarm;
  member_of_swarm.trains(rules_of());
  member_of_swarm.happens(RewireRequested{"ring"});
  const auto welcome = member_of_swarm.hears(2, wire::Join{member(2, wire::Phase::joining)});
  REQUIRE(sent<wire::Welcome>(welcome).size() == 1);
  REQUIRE(sent<wire::Rewire>(welcome).size() == 1);

  Life joiner(joining({2}));
  joiner.happens(Start{});
  joiner.hears(2, wire::Welcome{manifest(), {}, {member(2)}, 0});
  joiner.hears(2, rewire(1, "ring"));
  REQUIRE(joiner.peer.view().topology == nullptr);
  const auto ready = joiner.happens(Prepared{rules_of()});
  REQUIRE(follows(joiner) == "ring");
  REQUIRE(all<Rewired>(ready).size() == 1);
}

TEST_CASE("an unknown topology is forwarded and reported, but not followed") {
  Life life;
  life.trains(rules_of(), {2, 3});
  const auto told = life.hears(2, rewire(1, "moebius:k=3"));
  REQUIRE(follows(life) == "complete");
  REQUIRE(all<Rewired>(told).empty());
  REQUIRE(sent<wire::Rewire>(told).size() == 2);
  REQUIRE(all<Notice>(told).size() == 1);
  REQUIRE(all<Notice>(told)[0].what == Notice::What::unwired);
  REQUIRE(all<Notice>(told)[0].text.find("moebius:k=3") != std::string::npos);
}

TEST_CASE("a topology that its author has not signed is neither followed nor sent on") {
  const wire::Rewire genuine = rewire(1, "ring");
  std::vector<wire::Rewire> forged(6, genuine);
  forged[0].topology = "exponential";
  forged[1].revision.number = 2;
  forged[2].revision.author = PeerId{10};  // of another one
  forged[3].revision.author = PeerId{10};
  forged[3].key = identity_of(10).key();
  forged[4].signature = {};
  forged[5].signature = identity_of(9).sign(statement_of(member(9)));
  for (const wire::Rewire& false_one : forged) {
    Life life;
    life.trains(rules_of(), {2, 3});
    REQUIRE(sent<wire::Rewire>(life.hears(2, false_one)).empty());
    REQUIRE(follows(life) == "complete");
    REQUIRE(sent<wire::Rewire>(life.hears(3, genuine)).size() == 2);
    REQUIRE(follows(life) == "ring");
  }
}

TEST_CASE("a revision far above the own one is not followed, and users can still set a topology") {
  Life life;
  life.trains(rules_of(), {2});
  REQUIRE(sent<wire::Rewire>(life.hears(2, rewire(wire::kRevisionMax, "ring"))).empty());
  REQUIRE(sent<wire::Rewire>(life.hears(2, rewire(1001, "ring"))).empty());
  REQUIRE(follows(life) == "complete");
  life.hears(2, rewire(1000, "ring"));  // that of a long partition
  REQUIRE(follows(life) == "ring");
  REQUIRE(sent<wire::Rewire>(life.happens(RewireRequested{"exponential"}))[0].second ==
          rewire(1001, "exponential", 1));
  REQUIRE(follows(life) == "exponential");
}

TEST_CASE("of the topologies that an author sets in one second, the first and then the latest are followed") {
  Life life;
  life.trains(rules_of(), {2, 3});
  REQUIRE(sent<wire::Rewire>(life.hears(2, rewire(1, "ring"))).size() == 2);
  for (std::uint64_t number = 2; number < 500; ++number) {
    life.now = life.now + 1ms;
    const auto told = life.hears(2, rewire(number, number % 2 == 0 ? "exponential" : "complete"));
    REQUIRE(sent<wire::Rewire>(told).empty());
    REQUIRE(all<Rewired>(told).empty());
  }
  REQUIRE(follows(life) == "ring");
  life.hears(3, rewire(498, "star"));  // older than what waits
  const auto later = life.waits(at(1s), {2, 3});
  REQUIRE(sent<wire::Rewire>(later).size() == 2);
  REQUIRE(sent<wire::Rewire>(later)[0].second == rewire(499, "complete"));
  REQUIRE(all<Rewired>(later).size() == 1);
  REQUIRE(all<Rewired>(life.waits(at(5s), {2, 3})).empty());
  // A second author does not wait for the first one, and a user of this peer for nobody.
  life.hears(2, rewire(500, "ring"));
  life.hears(2, rewire(501, "complete"));
  life.hears(2, rewire(502, "star", 8));
  REQUIRE(follows(life) == "star");
  life.hears(2, rewire(503, "ring", 8));
  life.happens(RewireRequested{"exponential"});
  REQUIRE(follows(life) == "exponential");
  REQUIRE(all<Rewired>(life.waits(at(10s), {2, 3})).empty());
}

TEST_CASE("many authors together change the topology a few times a second") {
  Life life;
  life.trains(rules_of(), {2});
  std::size_t changes = 0;
  for (std::uint64_t number = 1; number <= 400; ++number) {
    changes +=
        all<Rewired>(life.hears(2, rewire(number, number % 2 == 0 ? "ring" : "star", 100 + number))).size();
    changes += all<Rewired>(life.waits(life.now + 10ms, {2})).size();
  }
  REQUIRE(changes >= 8);
  REQUIRE(changes <= 8 * 5);
}

TEST_CASE("an observer sets no topology") {
  PeerOptions options;
  options.membership.observers = {PeerId{9}};
  Life life(std::move(options));
  life.trains(rules_of(), {2, 9});
  REQUIRE(sent<wire::Rewire>(life.hears(9, rewire(1, "ring"))).empty());
  REQUIRE(follows(life) == "complete");
  life.hears(2, rewire(1, "ring", 8));
  REQUIRE(follows(life) == "ring");
}

}  // namespace starling::gossip
