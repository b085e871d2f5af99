#include "gossip/partner.h"

#include <map>

#include "tests/catch.h"
#include "tests/gossip/story.h"

namespace starling::gossip {

using wire::Liveness;
using wire::Phase;

namespace {

// Peer 1 of a swarm that it knows.
struct Swarm {
  explicit Swarm(const std::string& topology) : chooser(*topologies::Topology::parse(topology), Random(5)) {
    membership.start(at(0s));
    membership.set_phase(Phase::training);
  }
  void tell(const wire::Member& m) { membership.merge(at(0s), {&m, 1}, out); }
  std::map<std::uint64_t, int> draw(int times) {
    std::map<std::uint64_t, int> drawn;
    for (int k = 0; k < times; ++k) {
      const auto partner = chooser.choose(membership, static_cast<std::uint64_t>(k));
      ++drawn[partner ? partner->value : 0];
    }
    return drawn;
  }

  Membership membership{member(1, Phase::joining), {}, Random(1)};
  PartnerChooser chooser;
  std::vector<Action> out;
};

}  // namespace

TEST_CASE("on a ring the partners are the two beside one, in the order of the names") {
  Swarm swarm("ring");
  // Ids run against the names: only names order the vertices, p2 before p10.
  for (const auto& [id, name] : std::map<std::uint64_t, std::string>{{90, "p2"}, {70, "p10"}, {80, "p3"}}) {
    auto m = member(id);
    m.name = name;
    swarm.tell(m);
  }
  const auto drawn = swarm.draw(2000);  // p1 stands between p10 and p2
  REQUIRE(drawn.size() == 2);
  REQUIRE(std::abs(drawn.at(90) - 1000) < 120);
  REQUIRE(std::abs(drawn.at(70) - 1000) < 120);
}

TEST_CASE("every neighbor is drawn equally often") {
  Swarm swarm("complete");
  for (std::uint64_t k = 2; k <= 6; ++k) swarm.tell(member(k));
  const auto drawn = swarm.draw(10000);
  REQUIRE(drawn.size() == 5);
  for (const auto& [id, times] : drawn) REQUIRE(std::abs(times - 2000) < 200);
}

TEST_CASE("members that do not train yet or are gone are no vertices: the graph heals over them") {
  Swarm swarm("ring");
  for (std::uint64_t k = 2; k <= 6; ++k) swarm.tell(member(k, k == 6 ? Phase::joining : Phase::training));
  auto drawn = swarm.draw(200);
  REQUIRE(drawn.contains(2));
  REQUIRE(drawn.contains(5));  // p6 has no parameters yet
  REQUIRE(drawn.size() == 2);
  swarm.tell(said_to_be(member(2), Liveness::failed));
  swarm.tell(said_to_be(member(5), Liveness::left));
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
  swarm.tell(said_to_be(member(2), Liveness::suspect));
  const auto drawn = swarm.draw(200);
  REQUIRE(drawn.size() == 1);
  REQUIRE(drawn.at(4) == 200);
}

TEST_CASE("settling and finished members are still partners") {
  Swarm swarm("complete");
  swarm.tell(member(2, Phase::settling));
  swarm.tell(member(3, Phase::finished));
  const auto drawn = swarm.draw(200);
  REQUIRE(drawn.contains(2));
  REQUIRE(drawn.contains(3));
}

TEST_CASE("there is nobody to choose alone, or when all the others are suspect") {
  Swarm swarm("exponential");
  REQUIRE_FALSE(swarm.chooser.choose(swarm.membership, 1));
  swarm.tell(said_to_be(member(2), Liveness::suspect));
  REQUIRE_FALSE(swarm.chooser.choose(swarm.membership, 2));
}

}  // namespace starling::gossip
