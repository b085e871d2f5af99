// The commands that show things.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

json run_json(const Words& arguments) {
  const Outcome outcome = run(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  CHECK(is_one_line(outcome.out));
  const json object = json::parse(outcome.out, nullptr, false);
  REQUIRE(object.is_object());
  return object;
}

bool lists(const json& list, const std::string& name) {
  for (const json& entry : list) {
    if (entry.at("name") == name && !entry.at("description").get<std::string>().empty()) return true;
  }
  return false;
}

TEST_CASE("--version says the version and --help the commands, on standard output") {
  const Outcome version = run({"--version"});
  CHECK(version.exit_code == 0);
  CHECK(version.out.starts_with("starling "));
  CHECK(is_one_line(version.out));
  const Outcome help = run({"--help"});
  CHECK(help.exit_code == 0);
  for (const char* command : {"peer", "swarm", "simulate", "topology", "model", "data", "evaluate"}) {
    CHECK(help.out.find(command) != std::string::npos);
  }
  const Outcome swarm = run({"swarm", "--help"});
  CHECK(swarm.exit_code == 0);
  for (const char* flag :
       {"--peers", "--batch-size", "--target-accuracy", "--slow", "--set", "--json", "--force"}) {
    CHECK(swarm.out.find(flag) != std::string::npos);
  }
  CHECK(run({"peer", "--help"}).out.find("--control-fd") == std::string::npos);
}

TEST_CASE("the lists name what the program has") {
  CHECK(lists(run_json({"model", "list", "--json"}).at("models"), "lenet"));
  CHECK(lists(run_json({"data", "list", "--json"}).at("data"), "glyphs"));
  CHECK(lists(run_json({"topology", "list", "--json"}).at("topologies"), "exponential"));
  for (const char* what : {"model", "data", "topology"}) {
    const Outcome outcome = run({what, "list"});
    CHECK(outcome.exit_code == 0);
    CHECK_FALSE(outcome.out.empty());
  }
}

TEST_CASE("LeNet for 28x28 images has 129,068 parameters, and costs what its layers cost") {
  const json model = run_json({"model", "show", "lenet", "--batch-size", "32", "--json"});
  CHECK(model.at("parameters") == 129068);
  std::size_t parameters = 0;
  double flops = 0;
  for (const json& layer : model.at("layers")) {
    parameters += layer.at("parameters").get<std::size_t>();
    flops += layer.at("flops_forward").get<double>();
  }
  CHECK(parameters == 129068);
  CHECK(flops == model.at("flops_forward").get<double>());
  CHECK(model.at("batch_size") == 32);
  CHECK(model.at("weights_bytes").get<std::size_t>() >= 4 * parameters);
  CHECK(model.at("activations_bytes").get<std::size_t>() > 0);
  CHECK(model.at("memory_bytes") == model.at("weights_bytes").get<std::size_t>() +
                                        model.at("gradients_bytes").get<std::size_t>() +
                                        model.at("optimizer_bytes").get<std::size_t>() +
                                        model.at("activations_bytes").get<std::size_t>());
  CHECK(run({"model", "show", "lenet"}).out.find("129068 parameters") != std::string::npos);
}

TEST_CASE("what a data set holds adds up") {
  const json info = run_json({"data", "info", "glyphs", "--json"});
  for (const char* set : {"train", "test"}) {
    std::size_t sum = 0;
    for (const json& count : info.at(std::string(set) + "_per_class")) sum += count.get<std::size_t>();
    CHECK(sum == info.at(std::string(set) + "_samples").get<std::size_t>());
  }
  CHECK(info.at("train_per_class").size() == info.at("classes").get<std::size_t>());
  CHECK(info.at("shape") == json::array({1, 28, 28}));
}

TEST_CASE("a ring of eight has the ring's figures") {
  const json ring = run_json({"topology", "show", "ring", "--peers", "8", "--json"});
  CHECK(ring.at("edges") == 8);
  CHECK(ring.at("degree_max") == 2);
  CHECK(ring.at("diameter") == 4);
  // Weights of a third: 1 - (1 + 2 cos 45 degrees) / 3.
  CHECK(ring.at("spectral_gap").get<double>() == Approx(0.195262));
  CHECK(run_json({"topology", "show", "ring", "--peers", "8", "--format", "json"}) == ring);
}

TEST_CASE("a topology can be drawn") {
  const Outcome dot = run({"topology", "show", "ring", "--peers", "4", "--format", "dot"});
  CHECK(dot.exit_code == 0);
  CHECK(dot.out.starts_with("graph"));
  const Outcome svg = run({"topology", "show", "ring", "--peers", "4", "--format", "svg"});
  CHECK(svg.exit_code == 0);
  CHECK(svg.out.find("<svg") != std::string::npos);
  const Outcome text = run({"topology", "show", "ring", "--peers", "4"});
  CHECK(text.out.find("diameter") != std::string::npos);
}

}  // namespace
}  // namespace starling::cli_tests
