#include "training/planner/profile.h"

#include <limits>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/training/pipelines.h"
#include "training/planner/cuts.h"

namespace starling::training {
namespace {

std::string layer_line(const std::string& name, const std::string& description = "Linear(2, 3)",
                       const std::string& activations = "8.000") {
  return name + " -- " + description +
         " -- forward_compute_time=1.500, backward_compute_time=2.250, activation_size=" + activations +
         ", parameter_size=24.000\n";
}

PipelineProfile read_profile(const std::string& text) {
  auto profile = read_pipedream_profile(text);
  if (!profile) FAIL(profile.error().message);
  return *std::move(profile);
}

std::string profile_error(const std::string& text) {
  const auto profile = read_pipedream_profile(text);
  REQUIRE_FALSE(profile.ok());
  return profile.error().message;
}

PipelineCuts cuts_of(const PipelineProfile& profile) {
  auto cuts = find_cuts(profile);
  if (!cuts) FAIL(cuts.error().message);
  return *std::move(cuts);
}

using Sets = std::vector<std::vector<std::size_t>>;

TEST_CASE("a profile is read, without inputs and parts that nobody reads") {
  const auto profile = read_profile(
      layer_line("node1", "Input0") + layer_line("node2") +
      layer_line("node3", "LSTM(  (a): B -- C)", "[1.0; 2.5; 4]") + layer_line("node4", "__getitem__(0)") +
      layer_line("node5", "__getitem__(1)") + "\r\n" + layer_line("node6", "Add") +
      "\tnode1 -- node2\n\tnode2 -- node3\r\n\tnode3 -- node4\n\tnode3 -- node5\n\tnode5 -- node6");
  REQUIRE(profile.layers.size() == 4);
  REQUIRE(profile.layers[0].name == "node2");
  REQUIRE(profile.layers[0].forward == Approx(0.0015).epsilon(1e-15));
  REQUIRE(profile.layers[0].backward == Approx(0.00225).epsilon(1e-15));
  REQUIRE(profile.layers[0].activations == 8);
  REQUIRE(profile.layers[0].parameters == 24);
  REQUIRE(profile.layers[1].activations == 7.5);
  REQUIRE(profile.layers[2].name == "node5");
  REQUIRE(profile.readers == Sets{{1}, {2}, {3}, {}});
}

TEST_CASE("the stage that a planner has noted in a profile is ignored") {
  std::string line = layer_line("node1");
  line.insert(line.size() - 1, " -- stage_id=2");
  REQUIRE(read_profile(line).layers[0].parameters == 24);
}

TEST_CASE("an error in a profile is one sentence with its line") {
  const std::string expected =
      " is not a layer, which is 'NAME -- DESCRIPTION -- forward_compute_time=..., "
      "backward_compute_time=..., "
      "activation_size=..., parameter_size=...'.";
  REQUIRE(profile_error("") == "the profile has no layers.");
  REQUIRE(profile_error("hello") == "line 1 of the profile: 'hello'" + expected);
  REQUIRE(profile_error(layer_line("a") + "b -- c") == "line 2 of the profile: 'b -- c'" + expected);
  REQUIRE(profile_error("a -- forward_compute_time=1") ==
          "line 1 of the profile: 'a -- forward_compute_time=1'" + expected);
  REQUIRE(profile_error(std::string("\x01\x1b[2J")) ==
          "line 1 of the profile: (text that is not printable)" + expected);
  REQUIRE(profile_error(layer_line(std::string("a\x1b"))) ==
          "line 1 of the profile: the name of the layer is not printable.");
  REQUIRE(profile_error("a -- b -- forward_compute_time=1, backward_compute_time=1") ==
          "line 1 of the profile: a layer has 4 amounts, and this one 2.");
  for (const std::string bad :
       {"-1", "nan", "inf", "1e999", "1e16", "[9e14; 9e14]", "", "[1; x]", "[]", "1; 2", "0x10"}) {
    CAPTURE(bad);
    REQUIRE(profile_error(layer_line("a", "b", bad)) ==
            "line 1 of the profile: 'activation_size=" + bad +
                "' is not 'activation_size=' with a number from 0 to 1e+15.");
  }
  REQUIRE(profile_error("a -- b -- forward_compute_time=1, time=1, activation_size=1, parameter_size=1") ==
          "line 1 of the profile: 'time=1' is not 'backward_compute_time=' with a number from 0 to 1e+15.");
  REQUIRE(profile_error(layer_line("a") + layer_line("a")) ==
          "line 2 of the profile: the layer 'a' is there twice.");
  REQUIRE(profile_error(layer_line("a") + "\ta") ==
          "line 2 of the profile: 'a' is not an edge, which is 'NAME -- NAME' after a tab.");
  REQUIRE(profile_error(layer_line("a") + "\ta -- b") ==
          "line 2 of the profile: the edge names the layer 'b', which no line before it describes.");
  REQUIRE(profile_error(layer_line("a") + layer_line("b") + "\ta -- b\n\ta -- b") ==
          "line 4 of the profile: the edge 'a -- b' is there twice.");
  REQUIRE(
      profile_error(layer_line("s") + layer_line("a") + layer_line("b") + "\ts -- a\n\ta -- b\n\tb -- a") ==
      "the layer 'a' needs its own output, directly or through others: a profile has no cycles.");
  REQUIRE(profile_error(layer_line("a") + "\ta -- a") ==
          "the layer 'a' needs its own output, directly or through others: a profile has no cycles.");
  REQUIRE(profile_error(layer_line("a", "Input")) == "the profile has no layer that computes anything.");
}

TEST_CASE("a profile is bounded") {
  REQUIRE(profile_error(std::string((std::size_t{16} << 20) + 1, 'x')) ==
          "the profile is longer than 16 MiB.");
  std::string many;
  for (std::size_t i = 0; i <= kMostProfiledLayers; ++i) many += layer_line(std::to_string(i));
  REQUIRE(profile_error(many) == "line 4097 of the profile: a profile has at most 4096 layers.");
  many.clear();
  for (int i = 0; i < 300; ++i) many += layer_line("l" + std::to_string(i));
  for (int i = 0; i < 300; ++i)
    for (int k = i + 1; k < 300; ++k) many += "\tl" + std::to_string(i) + " -- l" + std::to_string(k) + "\n";
  REQUIRE(profile_error(many) == "line 20301 of the profile: a profile has at most 20000 edges.");
}

TEST_CASE("a profile that a program makes is checked, too") {
  PipelineProfile profile = chain_profile({timed(1, 1, 1), timed(1, 1, 1)});
  REQUIRE(check_profile(profile).ok());
  profile.readers[1] = {2};
  REQUIRE(check_profile(profile).error().message == "a reader of the layer 'layer' is not in the profile.");
  profile.readers.pop_back();
  REQUIRE(check_profile(profile).error().message == "the profile has no list of readers for some layers.");
  profile = chain_profile({timed(-1, 1, 1)});
  REQUIRE(check_profile(profile).error().message ==
          "the layer 'layer' has the amount -3e-04, and times and bytes are from 0 to 1e+15.");
  profile = chain_profile({timed(1, std::numeric_limits<double>::infinity(), 1)});
  REQUIRE_FALSE(check_profile(profile).ok());
}

TEST_CASE("a chain can be cut after each layer") {
  const auto cuts = cuts_of(chain_profile({timed(1, 10, 5), timed(2, 20, 0), timed(3, 30, 7)}));
  REQUIRE(cuts.layers == Sets{{0}, {0, 1}, {0, 1, 2}});
  REQUIRE(cuts.before == std::vector<std::vector<std::uint32_t>>{{}, {0}, {0, 1}});
  REQUIRE(cuts.crossing == std::vector<double>{10, 20, 0});
  REQUIRE(cuts.parameters == std::vector<double>{5, 5, 12});
  REQUIRE(cuts.activations == std::vector<double>{10, 30, 60});
  REQUIRE(cuts.seconds[2] == Approx(6e-3).epsilon(1e-12));
  REQUIRE(cuts.longest() == 3);
}

TEST_CASE("the cuts of a graph are the sets that need nothing from behind them") {
  PipelineProfile diamond =
      chain_profile({timed(1, 1, 1), timed(1, 10, 1), timed(1, 100, 1), timed(1, 1000, 1)});
  diamond.readers = {{1, 2}, {3}, {3}, {}};
  const auto cuts = cuts_of(diamond);
  REQUIRE(cuts.layers == Sets{{0}, {0, 2}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}});
  REQUIRE(cuts.before == std::vector<std::vector<std::uint32_t>>{{}, {0}, {0}, {0, 1, 2}, {0, 1, 2, 3}});
  REQUIRE(cuts.crossing == std::vector<double>{1, 101, 11, 110, 0});
  REQUIRE(cuts.longest() == 4);
  // Two branches are not one behind the other.
  PlanRequest request{.levels = {{3, 1e9}}, .replicas = {1, 1, 1}, .cuts = {2, 3}};
  const auto plan = plan_pipeline(diamond, request);
  REQUIRE_FALSE(plan.ok());
  REQUIRE(plan.error().message == "the cut 3 does not lie behind 2.");
}

TEST_CASE("another source joins with its first reader") {
  PipelineProfile profile = chain_profile({timed(1, 1, 1), timed(1, 10, 1), timed(1, 100, 1)});
  profile.readers = {{2}, {2}, {}};
  REQUIRE(cuts_of(profile).layers == Sets{{0}, {0, 1, 2}});
}

TEST_CASE("graphs that cannot be cut into stages are refused") {
  PipelineProfile apart = chain_profile({timed(1, 1, 1), timed(1, 1, 1), timed(1, 1, 1)});
  apart.layers[2].name = "alone";
  apart.readers = {{1}, {}, {}};
  const auto cuts = find_cuts(apart);
  REQUIRE_FALSE(cuts.ok());
  REQUIRE(cuts.error().message ==
          "the layer 'alone' is not connected to the first one, so no cut divides them into stages.");
  // Thirteen branches: 2^13 sets.
  PipelineProfile wide = chain_profile(std::vector<ProfiledLayer>(15, timed(1, 1, 1)));
  wide.readers.assign(15, {14});
  wide.readers[0].clear();
  for (std::size_t i = 1; i < 14; ++i) wide.readers[0].push_back(i);
  wide.readers[14].clear();
  const auto many = find_cuts(wide);
  REQUIRE_FALSE(many.ok());
  REQUIRE(many.error().message ==
          "the profile has more than 4096 cuts: join layers, in independent branches first.");
}

}  // namespace
}  // namespace starling::training
