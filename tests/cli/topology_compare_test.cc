// starling topology compare.
#include <cmath>

#include "tests/catch.h"
#include "tests/cli/json.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

json compare_json(Words arguments) {
  arguments.insert(arguments.begin(), {"topology", "compare"});
  arguments.emplace_back("--json");
  return run_json(arguments);
}

// The error message.
std::string refused(Words arguments) {
  arguments.insert(arguments.begin(), {"topology", "compare"});
  const Outcome outcome = run(arguments);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(is_one_line(outcome.err));
  CHECK(outcome.err.starts_with("starling topology compare: "));
  return outcome.err;
}

}  // namespace

TEST_CASE("topologies are compared in the order they are named") {
  const json compared = compare_json({"ring", "--peers", "8", "complete", "exponential"});
  CHECK(compared.at("peers") == 8);
  const json& list = compared.at("topologies");
  REQUIRE(list.size() == 3);
  CHECK(list[0].at("name") == "ring");
  CHECK(list[1].at("name") == "complete");
  CHECK(list[2].at("name") == "exponential");
  CHECK(list[0].at("edges") == 8);
  CHECK(list[0].at("spectral_gap").get<double>() == Approx(0.195262));
  CHECK(list[1].at("consensus_factor").get<double>() == Approx(6.0 / 7));
  CHECK_FALSE(list[0].contains("measured"));
}

TEST_CASE("the default is to compare the common topologies that exist") {
  const std::size_t at_eight = compare_json({"--peers", "8"}).at("topologies").size();
  CHECK(at_eight == 10);
  const json at_nine = compare_json({"--peers", "9"}).at("topologies");
  CHECK(at_nine.size() < 10);
  for (const json& one : at_nine) CHECK(one.at("name") != "hypercube");
}

TEST_CASE("measurements agree with predictions", "[figures]") {
  const json ring = compare_json({"ring", "--peers", "8", "--measure", "--seeds", "4"}).at("topologies")[0];
  const json& measured = ring.at("measured");
  CHECK(measured.at("round_factor").get<double>() == Approx(0.647603).epsilon(1e-3));
  CHECK(measured.at("consensus_factor").get<double>() ==
        Approx(ring.at("consensus_factor").get<double>()).epsilon(0.01));
  CHECK(std::abs(measured.at("consensus_deviation_percent").get<double>()) < 10);
  CHECK(measured.at("consensus_error_percent").get<double>() > 0);
  CHECK(measured.at("exact_after").is_null());
  CHECK(measured.at("seeds") == 4);
  CHECK(compare_json({"ring", "--peers", "8", "--measure", "--seeds", "4", "--threads", "1"})
            .at("topologies")[0] == ring);
  CHECK(compare_json({"ring", "--peers", "8", "--measure", "--seeds", "1", "--seed", "2"})
            .at("topologies")[0] != ring);
  const json lazy = compare_json({"ring", "--peers", "8", "--measure", "--seeds", "1", "--mixing", "lazy"})
                        .at("topologies")[0];
  CHECK(lazy.at("measured").at("round_factor") > measured.at("round_factor"));
}

TEST_CASE("the table has a line per topology, and --out writes the plot") {
  const TemporaryFolder folder;
  const std::string picture = folder.file("curves.svg");
  const Outcome outcome = run({"topology", "compare", "ring", "complete", "--peers", "8", "--measure",
                               "--seeds", "1", "--out", picture});
  REQUIRE(outcome.exit_code == 0);
  CHECK(contains(outcome.out, "\nring "));
  CHECK(contains(outcome.out, "\ncomplete "));
  CHECK(contains(outcome.out, "measured"));
  const std::string svg = read_whole(picture);
  CHECK(contains(svg, "<svg "));
  CHECK(contains(svg, "<title>consensus of 8 peers</title>"));
  const Outcome drawn = run({"topology", "compare", "ring", "complete", "--peers", "8", "--measure",
                             "--seeds", "1", "--format", "svg"});
  CHECK(drawn.out == svg);
}

TEST_CASE("an error of topology compare is one line") {
  CHECK(contains(refused({"ring"}), "--peers is missing"));
  CHECK(contains(refused({"wheel", "--peers", "8"}), "topology 'wheel' is unknown"));
  CHECK(contains(refused({"hypercube", "--peers", "9"}), "hypercube"));
  CHECK(contains(refused({"--peers", "0"}), "--peers: '0'"));
  CHECK(contains(refused({"--peers", "1", "--measure"}), "from 2 to 256"));
  CHECK(contains(refused({"--peers", "300", "--measure"}), "from 2 to 256"));
  CHECK(contains(refused({"ring", "--peers", "8", "--mixing", "fast"}), "--mixing"));
  CHECK(
      contains(refused({"ring", "--peers", "8", "--seeds", "3"}), "--seeds has no effect without --measure"));
  CHECK(
      contains(refused({"ring", "--peers", "8", "--out", "x.svg"}), "--out has no effect without --measure"));
  CHECK(contains(refused({"ring", "--peers", "8", "--format", "svg"}), "--measure"));
  CHECK(contains(refused({"ring", "--peers", "8", "--format", "dot"}), "expected text, json or svg"));
  CHECK(contains(refused({"ring", "--peers", "8", "--json", "--format", "text"}),
                 "--json cannot be combined with"));
  CHECK(contains(refused({"ring", "--peers", "4", "--measure", "--seeds", "1", "--out", "/nowhere/x.svg"}),
                 "cannot write /nowhere/x.svg"));
  CHECK(contains(refused({"directed-exponential", "--peers", "8", "--mixing", "metropolis"}), "undirected"));
}

}  // namespace starling::cli_tests
