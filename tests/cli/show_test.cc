// The commands that print models, data sets and topologies.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/catch.h"
#include "tests/cli/json.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

bool lists(const json& list, const std::string& name) {
  for (const json& entry : list) {
    if (entry.at("name") == name && !entry.at("description").get<std::string>().empty()) return true;
  }
  return false;
}

TEST_CASE("--version prints the version and --help the commands") {
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

TEST_CASE("the lists name models, data sets and topologies") {
  CHECK(lists(run_json({"model", "list", "--json"}).at("models"), "lenet"));
  CHECK(lists(run_json({"data", "list", "--json"}).at("data"), "glyphs"));
  CHECK(lists(run_json({"topology", "list", "--json"}).at("topologies"), "exponential"));
  for (const char* what : {"model", "data", "topology"}) {
    const Outcome outcome = run({what, "list"});
    CHECK(outcome.exit_code == 0);
    CHECK_FALSE(outcome.out.empty());
  }
}

TEST_CASE("rule list names every rule, and rule show describes each") {
  const json rules = run_json({"rule", "list", "--json"}).at("rules");
  REQUIRE(lists(rules, "pairwise"));
  for (const json& entry : rules) {
    const std::string name = entry.at("name");
    CAPTURE(name);
    const json rule = run_json({"rule", "show", name, "--json"});
    CHECK(rule.at("name") == name);
    CHECK(rule.at("description") == entry.at("description"));
    CHECK(run({"rule", "show", name}).out.starts_with(name + ": "));
    // The default pace is one that a run with this rule accepts.
    const json every = rule.at("every");
    if (every.is_null()) continue;
    CHECK(run({"simulate", "--rule", name, "--every", every, "--peers", "2", "--print-config"}).exit_code ==
          0);
  }
  const json clipped = run_json({"rule", "show", "clipped", "--json"});
  CHECK(clipped.at("every") == "8 steps");
  CHECK(clipped.at("payloads") == json::array({"f32", "bf16", "int8"}));
  CHECK(clipped.at("conserves") == "nothing");
  const json flags = clipped.at("flags"), others = run_json({"rule", "show", "ssp", "--json"}).at("flags");
  CHECK(std::find(flags.begin(), flags.end(), "--clip") != flags.end());
  CHECK(std::find(others.begin(), others.end(), "--clip") == others.end());
  CHECK(std::find(others.begin(), others.end(), "--staleness") != others.end());
  const std::string text = run({"rule", "show", "d-psgd"}).out;
  CHECK(contains(text, "waits for   all neighbors, in every round"));
  CHECK(contains(text, "only one whose links go both ways"));
  const Outcome unknown = run({"rule", "show", "gossip"});
  CHECK(unknown.exit_code == 2);
  CHECK(is_one_line(unknown.err));
  CHECK(contains(unknown.err, "'gossip' is not available; this version has pairwise"));
}

TEST_CASE("LeNet for 28x28 images has 129,068 parameters") {
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

TEST_CASE("gpt-tiny's flops per token are those of its parameters and of causal attention") {
  const json model = run_json({"model", "show", "gpt-tiny", "--json"});
  // 6 N + 12 L C T (Chowdhery et al., "PaLM", 2022, appendix B), of which attention here computes half.
  const double parameters = 795'904, attention = 12.0 * 4 * 128 * 64;
  const double flops = model.at("flops_per_token").get<double>();
  CHECK(flops > 6 * parameters + attention / 2);
  CHECK(flops < 6 * parameters + attention);
  CHECK(run_json({"model", "show", "lenet", "--json"}).at("flops_per_token").is_null());
  CHECK(contains(run({"model", "show", "gpt-tiny"}).out, " M flops per token in training"));
}

TEST_CASE("--recompute keeps less than 60 % of ResNet-18's activations") {
  const json model = run_json(
      {"model", "show", "resnet18", "--input", "3x32x32", "--batch-size", "4", "--recompute", "--json"});
  CHECK(model.at("kept_bytes").get<double>() < 0.6 * model.at("kept_without_recompute_bytes").get<double>());
  const json plain =
      run_json({"model", "show", "resnet18", "--input", "3x32x32", "--batch-size", "4", "--json"});
  CHECK(plain.at("kept_bytes") == model.at("kept_without_recompute_bytes"));
  CHECK(plain.at("memory_bytes") > model.at("memory_bytes"));
  CHECK(run_json({"model", "show", "resnet18", "--input", "3x32x32", "--batch-size", "4", "--recompute",
                  "never", "--json"}) == plain);
  const Outcome stages = run({"model", "show", "lenet", "--recompute=except-last"});
  CHECK(stages.exit_code == 2);
  CHECK(
      contains(stages.err, "--recompute: 'except-last' is not available; this version has never or always"));
}

TEST_CASE("a data set's counts add up") {
  const json info = run_json({"data", "info", "glyphs", "--json"});
  for (const char* set : {"train", "test"}) {
    std::size_t sum = 0;
    for (const json& count : info.at(std::string(set) + "_per_class")) sum += count.get<std::size_t>();
    CHECK(sum == info.at(std::string(set) + "_samples").get<std::size_t>());
  }
  CHECK(info.at("train_per_class").size() == info.at("classes").get<std::size_t>());
  CHECK(info.at("shape") == json::array({1, 28, 28}));
}

TEST_CASE("topology show prints the figures of a ring of eight") {
  const json ring = run_json({"topology", "show", "ring", "--peers", "8", "--json"});
  CHECK(ring.at("edges") == 8);
  CHECK(ring.at("degree_max") == 2);
  CHECK(ring.at("diameter") == 4);
  // With weights of 1/3: 1 - (1 + 2 cos 45 degrees) / 3.
  CHECK(ring.at("spectral_gap").get<double>() == Approx(0.195262));
  CHECK(run_json({"topology", "show", "ring", "--peers", "8", "--format", "json"}) == ring);
}

TEST_CASE("topology show prints a topology's mixing rates") {
  const json rounds = run_json({"topology", "show", "one-peer-exponential", "--peers", "16", "--json"});
  CHECK(rounds.at("directed") == true);
  CHECK(rounds.at("period") == 4);
  CHECK(rounds.at("mixing") == "push-sum");
  CHECK(rounds.at("mean_preserved") == true);
  CHECK(rounds.at("sends_per_round") == 1);
  CHECK(rounds.at("round_factor") == 0);
  CHECK(rounds.at("exact_after") == 4);
  CHECK(rounds.at("spectral_gap").is_null());
  const json star = run_json({"topology", "show", "star", "--peers", "8", "--mixing", "uniform", "--json"});
  CHECK(star.at("mixing") == "uniform");
  CHECK(star.at("mean_preserved") == false);
  CHECK(star.at("exact_after").is_null());
  CHECK_FALSE(star.contains("parameters"));
  const json ring = run_json({"topology", "show", "ring", "--peers", "16", "--json"});
  CHECK(ring.at("consensus_factor").get<double>() == Approx(0.99058).margin(5e-6));
  CHECK(ring.at("exchanges_to_tenth").get<double>() ==
        Approx(-2 * std::log(10) / std::log(0.99058) / 16).epsilon(1e-3));
}

TEST_CASE("topology show --model prints the traffic") {
  const json torus = run_json({"topology", "show", "torus", "--peers", "16", "--model", "lenet", "--json"});
  CHECK(torus.at("parameters") == 129068);
  CHECK(torus.at("bytes_per_exchange") == 4 * 129068);
  CHECK(torus.at("bytes_per_round") == 4 * 4 * 129068.0);
  const Words words = {"topology", "show", "ring", "--peers", "4", "--model", "softmax", "--data", "glyphs"};
  CHECK(run(words).out.find("with softmax, 7850 parameters") != std::string::npos);
}

TEST_CASE("a topology can be drawn") {
  const Outcome dot = run({"topology", "show", "ring", "--peers", "4", "--format", "dot"});
  CHECK(dot.exit_code == 0);
  CHECK(dot.out.starts_with("graph"));
  CHECK(run({"topology", "show", "directed-exponential", "--peers", "4", "--format", "dot"})
            .out.starts_with("digraph"));
  const Outcome svg = run({"topology", "show", "ring", "--peers", "4", "--format", "svg"});
  CHECK(svg.exit_code == 0);
  CHECK(svg.out.starts_with("<svg"));
  CHECK(svg.out.find("4 peers, 4 links, spectral gap 0.6667") != std::string::npos);
  CHECK(run({"topology", "show", "line", "--peers", "3", "--format", "edges"}).out == "0 1\n1 2\n");
  const Outcome text = run({"topology", "show", "ring", "--peers", "4"});
  CHECK(text.out.find("diameter") != std::string::npos);
  CHECK(text.out.find(" 3 ") != std::string::npos);
}

TEST_CASE("topology show --out writes the drawing to a file") {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "starling-show-test.svg";
  const Outcome outcome =
      run({"topology", "show", "torus", "--peers", "9", "--format", "svg", "--out", path.string()});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.empty());
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  CHECK(text.starts_with("<svg"));
  CHECK(text.ends_with("</svg>\n"));
  std::filesystem::remove(path);
}

TEST_CASE("an error of topology show is one line") {
  const std::vector<std::pair<Words, std::string>> wrong = {
      {{"ring"}, "--peers is missing"},
      {{"ring", "--peers", "0"}, "not a whole number from 1"},
      {{"hypercube", "--peers", "12"}, "for example 8 or 16"},
      {{"ring", "--peers", "4", "--format", "png"}, "expected text, json, dot, svg or edges"},
      {{"ring", "--peers", "4", "--format", "svg", "--json"}, "--json cannot be combined with --format svg"},
      {{"ring", "--peers", "5000", "--format", "svg"}, "is not readable"},
      {{"ring", "--peers", "4", "--mixing", "given"}, "metropolis, uniform, lazy or push-sum"},
      {{"directed-exponential", "--peers", "8", "--mixing", "lazy"}, "expected push-sum or uniform"},
      {{"ring", "--peers", "4", "--data", "glyphs"}, "--model"},
      {{"ring", "--peers", "4", "--model", "vgg"}, "lenet"},
      {{"ring", "--peers", "4", "--out", "/no/such/folder/x"}, "--out"},
      {{"file:/no/such/file", "--peers", "4"}, "/no/such/file"},
  };
  for (const auto& [words, part] : wrong) {
    Words all = {"topology", "show"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = run(all);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace starling::cli_tests
