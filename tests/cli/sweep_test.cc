// `starling sweep`: completed, interrupted, and with wrong input.
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

constexpr const char* kSweep =
    "name = \"try\"\npeers = 2\n"
    "[model]\nname = \"softmax\"\n"
    "[training]\nsteps = 20\n"
    "[[fault]]\npeer = 1\nslow = 2\n"
    "[sweep]\nfault.1.slow = [1, \"exponential\"]\nseed = [1, 2]\n";

}  // namespace

TEST_CASE("a sweep prints progress and table, and skips complete runs") {
  const TemporaryFolder folder;
  folder.write("try.toml", kSweep);
  const Words words = {"sweep", folder.file("try.toml"), "--out", folder.file("out")};
  const Outcome outcome = run(words);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.find("4 of 4: slow=") != std::string::npos);
  CHECK(outcome.out.find("\nexponential  2 ") != std::string::npos);
  CHECK(outcome.out.find("4 experiments ran, 0 were already complete\nresults   " + folder.file("out")) !=
        std::string::npos);
  CHECK(read_whole(folder.file("out") + "/results.csv").rfind("fault.1.slow,seed,accuracy,", 0) == 0);
  CHECK(read_whole(folder.file("out") + "/slow=1,seed=2/experiment.toml").find("seed = 2\n") !=
        std::string::npos);

  Words as_json = words;
  as_json.emplace_back("--json");
  const Outcome again = run(as_json);
  REQUIRE(again.exit_code == 0);
  CHECK(again.err.empty());
  const json results = json::parse(again.out);
  REQUIRE(results.at("runs").size() == 4);
  CHECK(results.at("runs").at(0).at("values") == json{{"fault.1.slow", "1"}, {"seed", "1"}});
}

TEST_CASE("an interrupted sweep continues with the same command", "[figures]") {
  const TemporaryFolder folder;
  std::string text = kSweep;
  text.replace(text.find("seed = [1, 2]"), std::string("seed = [1, 2]").size(), "seed = [1, 2, 3, 4]");
  text.replace(text.find("steps = 20"), std::string("steps = 20").size(), "steps = 100");
  folder.write("try.toml", text);
  const Words words = {"sweep", folder.file("try.toml"), "--out", folder.file("out"), "--threads", "1"};
  Program stopped(words);
  REQUIRE(stopped.wait_for_error_text("2 of 8: "));
  stopped.signal(SIGINT);
  const Outcome first = stopped.finish();
  INFO(first.err);
  CHECK(first.exit_code == 130);
  CHECK(first.err.find("repeat the command to continue") != std::string::npos);
  const Outcome second = run(words);
  REQUIRE(second.exit_code == 0);
  CHECK(second.out.find(" were already complete") != std::string::npos);
  CHECK(second.out.find(", 0 were already complete") == std::string::npos);
  CHECK(second.err.find("8 of 8: ") != std::string::npos);
}

TEST_CASE("a wrong sweep is rejected before anything runs") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const std::string& why, const Words& more = {}) {
    folder.write("bad.toml", text);
    Words words = {"sweep", folder.file("bad.toml"), "--out", folder.file("out")};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find(why) != std::string::npos);
  };
  refused("peers = 2\n", "it has no [sweep]");
  refused("[sweep]\nmodel.name = [\"softmax\", \"nonesuch\"]\n", "name=nonesuch: ");
  refused("[sweep]\ngossip.topology = [\"ring\", \"moebius\"]\n", "topology=moebius: ");
  refused("[sweep]\ndata.source = [\"glyphs\", \"" + folder.file("absent") + "\"]\n", folder.file("absent"));
  refused(kSweep, "--threads: '0'", {"--threads", "0"});
  refused(kSweep, "--set: seed is a list", {"--set", "seed=3"});
  const Outcome nothing = run({"sweep"});
  CHECK(nothing.exit_code == 2);
  CHECK(nothing.err.find("EXPERIMENT is missing") != std::string::npos);
}

}  // namespace starling::cli_tests
