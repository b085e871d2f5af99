// Networks that are not in the zoo: from a file, in an experiment, and in checkpoints.
#include <nlohmann/json.hpp>
#include <string>

#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

const char* const kNetwork = R"(layers = [
  { type = "convolution", channels = 4, kernel = 3, stride = 2, padding = 1, bias = false },
  "batch norm",
  "relu",
  { type = "residual", layers = [
    { type = "convolution", channels = 4, kernel = 3, padding = 1 },
    "relu",
  ] },
  { type = "max pool", size = 2 },
  { type = "dropout", rate = 0.1 },
  "linear",
]
)";

}  // namespace

TEST_CASE("model show describes a network from a file") {
  const TemporaryFolder folder;
  folder.write("my-net.toml", kNetwork);
  const json model = run_json({"model", "show", folder.file("my-net.toml"), "--json"});
  CHECK(model.at("name") == "my-net");
  CHECK(model.at("classes") == 10);
  const json& layers = model.at("layers");
  REQUIRE(layers.size() == 9);
  CHECK(layers[0].at("from") == "input");
  CHECK(layers[3].at("from") == "relu1");
  CHECK_FALSE(layers[3].contains("other"));
  CHECK(layers[5].at("kind") == "sum");
  CHECK(layers[5].at("from") == "relu2");
  CHECK(layers[5].at("other") == "relu1");
  const Outcome text = run({"model", "show", folder.file("my-net.toml")});
  CHECK(text.out.find("relu2 + relu1") != std::string::npos);
  // The columns are aligned: every row of the table is as long as its head.
  const std::string table = text.out.substr(0, text.out.find("\n\n"));
  const std::size_t width = table.find('\n');
  for (std::size_t at = 0; at < table.size(); at = table.find('\n', at) + 1) {
    CHECK(std::min(table.find('\n', at), table.size()) - at == width);
    if (table.find('\n', at) == std::string::npos) break;
  }
}

TEST_CASE("a network in an experiment file learns, and its checkpoint contains it", "[figures]") {
  const TemporaryFolder folder;
  folder.write("run.toml",
               std::string("peers = 2\n[training]\nsteps = 60\n[model]\nname = \"tiny\"\n") + kNetwork);
  const json summary =
      summary_of(run({"simulate", folder.file("run.toml"), "--out", folder.file("run"), "--json"}));
  CHECK(summary.at("model") == "tiny");
  CHECK(summary.at("accuracy").get<double>() > 0.5);
  const json evaluated = run_json(
      {"evaluate", "--checkpoint", folder.file("run/model.safetensors"), "--data", "glyphs", "--json"});
  CHECK(evaluated.at("model") == "tiny");
  CHECK(evaluated.at("accuracy").get<double>() == Approx(summary.at("accuracy").get<double>()).margin(0.002));

  // The experiment.toml of the run is an experiment and a network file.
  const std::string resolved = read_whole(folder.file("run/experiment.toml"));
  CHECK(resolved.find("\n  { type = \"max pool\", size = 2 },\n") != std::string::npos);
  const json again = summary_of(
      run({"simulate", folder.file("run/experiment.toml"), "--out", folder.file("again"), "--json"}));
  CHECK(again.at("trace_hash") == summary.at("trace_hash"));
  CHECK(run_json({"model", "show", folder.file("run/experiment.toml"), "--json"}).at("name") == "tiny");
  const json traffic = run_json({"topology", "show", "ring", "--peers", "4", "--model",
                                 folder.file("run/experiment.toml"), "--data", "glyphs", "--json"});
  CHECK(traffic.at("model") == "tiny");
  CHECK(traffic.at("parameters") == summary.at("parameters"));
}

TEST_CASE("a network file can be given as a model, and flags override the file's layers", "[figures]") {
  const TemporaryFolder folder;
  folder.write("own.toml", "name = \"own\"\nlayers = [\"linear\"]\n");
  folder.write("run.toml", std::string("peers = 1\n[training]\nsteps = 2\n[model]\n") + kNetwork);
  const auto simulate = [&](const Words& more, const Environment& environment = {}) {
    Words words = {"simulate", folder.file("run.toml"), "--out", folder.file("run"), "--force", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return summary_of(run(words, environment));
  };
  CHECK(simulate({}).at("model") == "custom");
  const json own = simulate({"--model", folder.file("own.toml")});
  CHECK(own.at("model") == "own");
  CHECK(own.at("parameters") == 7850);
  CHECK(simulate({}, {{"STARLING_MODEL", folder.file("own.toml")}}).at("model") == "own");
  CHECK(simulate({"--model", "softmax"}).at("model") == "softmax");
  const json set = simulate({"--set", "model.layers=[\"relu\", \"linear\"]"});
  CHECK(set.at("model") == "custom");
  CHECK(set.at("parameters") == 7850);
}

TEST_CASE("joining processes receive the layers of a network from a file") {
  const TemporaryFolder folder;
  folder.write("own.toml", "layers = [{ type = \"linear\", features = 12 }, \"gelu\", \"linear\"]\n");
  const json summary = summary_of(run({"swarm", "--peers", "2", "--model", folder.file("own.toml"), "--data",
                                       "glyphs", "--steps", "100", "--out", folder.file("run"), "--json"}));
  CHECK(summary.at("model") == "own");
  for (const json& peer : summary.at("per_peer")) CHECK(peer.at("state") == "finished");
  const json evaluated =
      run_json({"evaluate", "--checkpoint", folder.file("run/p1.safetensors"), "--data", "glyphs", "--json"});
  CHECK(evaluated.at("model") == "own");
}

TEST_CASE("a joiner can name the network file, but not another one of that name") {
  const TemporaryFolder folder;
  folder.write("own.toml", "name = \"own\"\nlayers = [\"relu\", \"linear\"]\n");
  folder.write("other.toml", "name = \"own\"\nlayers = [\"gelu\", \"linear\"]\n");
  Program first({"peer", "--listen", "127.0.0.1:0", "--model", folder.file("own.toml"), "--data", "glyphs"});
  const std::string there = first.wait_for_error_word(" listens at ");
  REQUIRE(first.wait_for_error_text("training begins"));
  const Words join = {"peer", "--join", there, "--listen", "127.0.0.1:0", "--model"};
  const auto with = [&](const std::string& model) {
    Words words = join;
    words.push_back(model);
    return words;
  };
  const Outcome other = run(with(folder.file("other.toml")));
  CHECK(other.exit_code == 2);
  CHECK(other.err.find("the swarm's model 'own' has other layers than the one that --model names") !=
        std::string::npos);
  CHECK(run(with("softmax")).err.find("the swarm trains the model 'own', not 'softmax'") !=
        std::string::npos);
  CHECK(run({"peer", "--join", there, "--layers", "[\"linear\"]"})
            .err.find("--layers cannot be combined with --join") != std::string::npos);
  Program second(with(folder.file("own.toml")));
  CHECK(second.wait_for_error_text("the swarm trains own on glyphs"));
  CHECK(second.wait_for_error_text("training begins"));
}

TEST_CASE("an error in a network names file, line and layer") {
  const TemporaryFolder folder;
  folder.write("bad.toml",
               "layers = [\n  \"relu\",\n  { type = \"convolution\", channels = 4, kernal = 3 },\n]\n");
  folder.write("large.toml",
               "layers = [\n  { type = \"convolution\", channels = 4, kernel = 99 },\n  \"linear\",\n]\n");
  folder.write("none.toml", "[model]\nname = \"lenet\"\n");
  folder.write("run.toml", "[model]\nlayers = [\n  \"relu\",\n  \"rely\",\n]\n");
  const auto check = [&](const Words& words, const Words& said) {
    const Outcome outcome = run(words);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(is_one_line(outcome.err));
    for (const std::string& text : said) CHECK(outcome.err.find(text) != std::string::npos);
  };
  const std::string kernal =
      "bad.toml, line 3: layer 2 (convolution): unknown key 'kernal'; did you mean kernel?";
  check({"model", "show", folder.file("bad.toml")}, {kernal});
  check({"simulate", "--model", folder.file("bad.toml")}, {kernal});
  check({"swarm", "--model", folder.file("bad.toml")}, {kernal});
  check({"evaluate", "--checkpoint", "x", "--data", "glyphs", "--model", folder.file("bad.toml")}, {kernal});
  check({"topology", "show", "ring", "--peers", "4", "--model", folder.file("bad.toml")}, {kernal});
  check({"simulate", "--model", folder.file("large.toml")}, {"model \"large\": conv1 has a kernel of 99"});
  check({"model", "show", folder.file("none.toml")},
        {"none.toml, line 1: it contains no network; expected layers"});
  check({"model", "show", folder.file("absent.toml")}, {"absent.toml: No such file"});
  check({"model", "show", "my-net"}, {"unknown model \"my-net\""});
  check({"simulate", folder.file("run.toml")},
        {"run.toml, line 4: model.layers: layer 2: unknown layer 'rely'; did you mean relu?"});
  check({"simulate", "--layers", "[\"rely\"]"}, {"--layers: layer 1: unknown layer 'rely'"});
  check({"simulate", "--set", "model.layers=[3]"}, {"--set: model.layers: layer 1: expected a type"});
  check({"simulate", "--model", "lenet", "--layers", "[\"linear\"]"}, {"'lenet' is a network of the zoo"});
  check({"simulate", "--layers", "[{ type = \"linear\", features = 3 }]", "--data", "glyphs"},
        {"model \"custom\": fc1 yields 3 logits, but there are 10 classes"});
}

}  // namespace starling::cli_tests
