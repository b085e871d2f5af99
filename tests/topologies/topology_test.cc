#include "topologies/topology.h"

#include <algorithm>
#include <string>

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/topologies/family.h"
#include "topologies/name.h"

namespace starling::topologies {
namespace {

using List = std::vector<std::uint32_t>;

// The peers that `peer` links to among n.
List neighbors(const Topology& topology, std::uint32_t peer, std::uint32_t n, std::uint64_t round = 0) {
  List list;
  for (const Link& link : topology.among(n).links(peer, round)) list.push_back(link.peer);
  return list;
}

}  // namespace

TEST_CASE("every listed topology parses under its own name and has a description") {
  REQUIRE(names().size() >= 4);
  for (const auto& entry : names()) {
    REQUIRE(std::string(entry.description).size() > 10);
    if (entry.placeholder) continue;
    REQUIRE(named(entry.name).name() == entry.name);
  }
  // file:PATH is only a placeholder for the command line, which reads the file.
  REQUIRE(std::string(names().back().name) == "file:PATH");
  REQUIRE(names().back().placeholder);
  REQUIRE(contains(Topology::parse("file:PATH").error().message, "only the command line reads"));
}

TEST_CASE("an unknown topology is an error that lists the known ones") {
  for (const char* name : {"", "rings", "Ring", "ring ", "ring2"}) {
    const auto topology = Topology::parse(name);
    REQUIRE_FALSE(topology.ok());
    for (const auto& entry : names()) CHECK(contains(topology.error().message, entry.name));
    CHECK_FALSE(contains(topology.error().message, "\n"));
  }
}

TEST_CASE("an unknown parameter of a family is an error that names it") {
  const auto topology = Topology::parse("ring:k=4");
  REQUIRE_FALSE(topology.ok());
  REQUIRE(topology.error().message == "topology 'ring:k=4' has an unknown parameter 'k'; ring takes none");
}

TEST_CASE("parameters are key=value, separated by commas, each at most once") {
  auto name = Name::parse("small-world:k=4,p=0.1");
  REQUIRE(name.ok());
  REQUIRE(name->family() == "small-world");
  REQUIRE(name->has("k"));
  REQUIRE(*name->whole("k", 2, 1, 100) == 4);
  REQUIRE_FALSE(name->finish().ok());
  REQUIRE(contains(name->finish().error().message, "unknown parameter 'p'; small-world takes k"));
  REQUIRE(*name->real("p", 0.5, 0, 1) == 0.1);
  REQUIRE(*name->whole("seed", 7, 0, 100) == 7);
  REQUIRE(name->finish().ok());

  for (const char* wrong : {"a:", "a:k", "a:k=", "a:=4", "a:k=1,", "a:,k=1", "a:k=1,k=2"}) {
    CAPTURE(wrong);
    REQUIRE_FALSE(Name::parse(wrong).ok());
  }
  REQUIRE(contains(Name::parse("a:k=1,k=2").error().message, "has the parameter 'k' twice"));
}

TEST_CASE("a parameter out of its range is an error that names the expected range") {
  for (const char* text : {"a:k=0", "a:k=9", "a:k=x", "a:k=-1", "a:k=2.5", "a:k=99999999999999999999"}) {
    auto name = Name::parse(text);
    REQUIRE(name.ok());
    const auto k = name->whole("k", 2, 1, 8);
    REQUIRE_FALSE(k.ok());
    CHECK(contains(k.error().message, "expected a whole number from 1 to 8"));
  }
  for (const char* text : {"a:p=1.5", "a:p=nan", "a:p=inf", "a:p=-0.1", "a:p=0.1x"}) {
    auto name = Name::parse(text);
    REQUIRE(name.ok());
    const auto p = name->real("p", 0.5, 0, 1);
    REQUIRE_FALSE(p.ok());
    CHECK(contains(p.error().message, "expected a number from 0 to 1"));
  }
}

TEST_CASE("in every topology one peer has no neighbors, and two peers have each other") {
  for (const auto& entry : names()) {
    if (entry.placeholder) continue;
    CAPTURE(entry.name);
    REQUIRE(neighbors(named(entry.name), 0, 1, 0).empty());
    REQUIRE(neighbors(named(entry.name), 0, 2, 0) == List{1});
    REQUIRE(neighbors(named(entry.name), 1, 2, 0) == List{0});
  }
}

TEST_CASE("the ring links each peer to the previous and the next one") {
  REQUIRE(neighbors(named("ring"), 0, 5, 0) == List{1, 4});
  REQUIRE(neighbors(named("ring"), 3, 5, 0) == List{2, 4});
  REQUIRE(neighbors(named("ring"), 4, 5, 0) == List{0, 3});
}

TEST_CASE("the exponential graph links i to i +- 2^k") {
  REQUIRE(neighbors(named("exponential"), 0, 16, 0) == List{1, 2, 4, 8, 12, 14, 15});
  REQUIRE(neighbors(named("exponential"), 5, 6, 0) == List{0, 1, 3, 4});
  // With n = 2^m the hops are +-1, ..., +-2^(m-2) and 2^(m-1), its own inverse: 2m - 1 neighbors.
  for (std::uint32_t m = 1; m <= 13; ++m)
    REQUIRE(neighbors(named("exponential"), 0, 1u << m, 0).size() == 2 * m - 1);
  REQUIRE(neighbors(named("exponential"), 9999, 10000, 0).size() == 28);
}

TEST_CASE("uniform and complete link each peer to all others") {
  REQUIRE(neighbors(named("uniform"), 2, 4, 0) == List{0, 1, 3});
  REQUIRE(neighbors(named("complete"), 7, 10000, 3).size() == 9999);
}

TEST_CASE("static topologies have period 1 and do not change with the round") {
  for (const auto& entry : names()) {
    if (entry.placeholder) continue;
    const auto topology = named(entry.name);
    if (topology.among(12).period() != 1) continue;
    REQUIRE(neighbors(topology, 5, 12, 0) == neighbors(topology, 5, 12, 1234567));
  }
  REQUIRE(named("ring").among(12).period() == 1);
}

}  // namespace starling::topologies
