// Adds a toy family as docs/EXTENDING.md describes: a function that makes it from the parameters of a name,
// and a row in the table of families.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/topologies/family.h"
#include "topologies/spectra/analysis.h"
#include "topologies/spectra/mixing.h"
#include "topologies/topology.h"

namespace starling::topologies {
namespace {

// Peer i is linked to i +- 1 and to i +- hop modulo n. It exists for more than 2 hop peers.
Result<Family> make_toy_chords(Name& name) {
  const auto hop = name.whole("hop", 2, 2, 100);
  if (!hop) return hop.error();
  Family family = static_family([hop = *hop](std::uint32_t peer, std::uint32_t n, auto link) {
    for (const std::uint64_t by : {std::uint64_t{1}, hop % n}) {
      link((peer + by) % n);
      link((peer + n - by) % n);
    }
  });
  family.exists = [hop = *hop](std::uint32_t peers) -> Status {
    if (peers > 2 * hop) return Done{};
    return Error{"expected more than " + std::to_string(2 * hop) + " peers"};
  };
  return family;
}

std::vector<FamilyRow> with_toy_family() {
  std::vector<FamilyRow> table(family_rows().begin(), family_rows().end());
  table.push_back({{"toy-chords:hop=2", "a ring with chords"}, make_toy_chords});
  return table;
}

Topology toy(const std::string& name) {
  auto topology = Topology::parse(name, with_toy_family());
  if (!topology) FAIL(topology.error().message);
  return *topology;
}

TEST_CASE("the name of a new family is parsed with its parameters") {
  const auto refusal = [](const char* name) {
    return Topology::parse(name, with_toy_family()).error().message;
  };
  CHECK(toy("toy-chords:hop=3").name() == "toy-chords:hop=3");
  CHECK(toy("ring").name() == "ring");
  CHECK_FALSE(Topology::parse("toy-chords").ok());
  CHECK(contains(refusal("toy-chords:hop=1"), "expected a whole number from 2 to 100"));
  CHECK(contains(refusal("toy-chords:k=2"), "unknown parameter 'k'; toy-chords takes hop"));
  CHECK(contains(refusal("chords"), "accepted are complete, "));
  CHECK(contains(refusal("chords"), "toy-chords:hop=2"));
}

TEST_CASE("the links of a new family are sorted, mutual and connected, for any number of peers") {
  CHECK(neighbors(toy("toy-chords").among(7), 0) == List{1, 2, 5, 6});
  CHECK(neighbors(toy("toy-chords:hop=3").among(9), 7) == List{1, 4, 6, 8});
  for (std::uint32_t n = 1; n <= 12; ++n) {
    CAPTURE(n);
    const Arcs all = arcs(toy("toy-chords:hop=4").among(n));
    for (const auto& [from, to] : all) CHECK(all.contains({to, from}));
    CHECK(reaches_all(n, all));
  }
  CHECK(toy("toy-chords").exists(5).ok());
  CHECK(toy("toy-chords").exists(4).error().message == "expected more than 4 peers");
}

TEST_CASE("the mixing matrix of a new family is doubly stochastic") {
  const Schedule schedule = toy("toy-chords").among(7);
  CHECK(default_mixing(schedule) == Mixing::metropolis);
  const auto graph = Graph::of(schedule);
  REQUIRE(graph.ok());
  const auto w = mixing_matrix(*graph, Mixing::metropolis);
  REQUIRE(w.ok());
  CHECK(is_doubly_stochastic(*w));
  const std::vector<double> matrix = dense(*w);
  for (const std::uint32_t j : {1U, 2U, 5U, 6U}) CHECK(matrix[j] == 0.2);
  CHECK(matrix[0] == Approx(0.2));
  CHECK((matrix[3] == 0 && matrix[4] == 0));
  CHECK(lock_step_links(schedule, 0, 0) == Links{{1, 0.2}, {2, 0.2}, {5, 0.2}, {6, 0.2}});
  const Analysis analysis = analyze(*graph);
  CHECK((analysis.edges == 14 && analysis.diameter == 2 && analysis.connected));
}

}  // namespace
}  // namespace starling::topologies
