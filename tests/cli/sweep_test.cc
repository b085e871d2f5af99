// `starling sweep`: completed, interrupted, and with wrong input.
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/catch.h"
#include "tests/cli/program.h"
#include "tests/seeds.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

constexpr const char* kSweep =
    "name = \"try\"\npeers = 2\n"
    "[model]\nname = \"softmax\"\n"
    "[training]\nsteps = 20\n"
    "[[fault]]\npeer = 1\nslow = 2\n"
    "[sweep]\nfault.1.slow = [1, \"exponential\"]\nseed = [1, 2]\n";

// The texts of the blocks of this language in a document of the repository.
std::vector<std::string> blocks_of(const std::string& document, const std::string& language) {
  const std::string text = read_whole(std::string(STARLING_SOURCE_DIR) + "/" + document);
  const std::string begin = "```" + language + "\n", end = "```\n";
  std::vector<std::string> blocks;
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    blocks.push_back(text.substr(at, text.find(end, at) - at));
  }
  return blocks;
}

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
  CHECK(read_whole(folder.file("out") + "/results.csv").rfind("slow,seed,accuracy,", 0) == 0);
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

TEST_CASE("a dry run lists the combinations with an estimate, and writes nothing") {
  const TemporaryFolder folder;
  folder.write("try.toml", kSweep);
  Words words = {"sweep", folder.file("try.toml"), "--out", folder.file("out"), "--dry-run"};
  const Outcome outcome = run(words);
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("slow=exponential,seed=2  about ") != std::string::npos);
  CHECK(outcome.out.find("\n4 combinations, 0 complete, 4 to run in about ") != std::string::npos);
  CHECK(outcome.out.find("\nestimated from half a second of training of 1 kind") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.file("out")));
  words.pop_back();
  REQUIRE(run(words).exit_code == 0);
  words.emplace_back("--dry-run");
  CHECK(run(words).out.find("4 combinations, 4 complete, 0 to run\n") != std::string::npos);
}

TEST_CASE("a sweep with --keep-going ends with exit code 1 and a list of what failed") {
  const TemporaryFolder folder;
  folder.write("try.toml",
               "peers = 2\n[model]\nname = \"softmax\"\n[training]\nsteps = 20\n"
               "[[fault]]\npeer = 0\ncrash = true\nfrom = \"100ms\"\n"
               "[sweep]\ngossip.rule = [\"all-reduce\", \"pairwise\"]\nseed = [1, 2]\n");
  Words words = {"sweep", folder.file("try.toml"), "--out", folder.file("out"), "--threads", "1"};
  const Outcome stopped = run(words);
  CHECK(stopped.exit_code == 1);
  CHECK(stopped.err.find("starling sweep: rule=all-reduce,seed=1: ") != std::string::npos);
  words.emplace_back("--keep-going");
  const Outcome outcome = run(words);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.find("2 experiments ran, ") != std::string::npos);
  CHECK(outcome.err.find("starling sweep: 2 experiments failed:\n  rule=all-reduce,seed=1: ") !=
        std::string::npos);
  CHECK(outcome.err.find("\n  rule=all-reduce,seed=2: ") != std::string::npos);
  CHECK(std::filesystem::exists(folder.file("out/rule=pairwise,seed=2/summary.json")));
}

TEST_CASE("all files of a sweep have the values as the user spells them") {
  const TemporaryFolder folder;
  folder.write("try.toml",
               "peers = 2\n[model]\nname = \"softmax\"\n[training]\nsteps = 5\n"
               "[sweep]\ngossip.every = [\"0.5 s\", \"20000us\"]\nseed = [1, 2]\n");
  const std::string out = folder.file("out");
  const Outcome outcome = run({"sweep", folder.file("try.toml"), "--out", out});
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.exit_code == 0);
  for (const std::string value : {"0.5 s", "20000us"}) {
    INFO(value);
    CHECK(outcome.out.find("\n" + value + " ") != std::string::npos);
    for (const char* file : {"results.csv", "curves.csv"})
      CHECK(read_whole(out + "/" + file).find("\n" + value + ",1,") != std::string::npos);
    CHECK(read_whole(out + "/results.json").find("\"" + value + "\"") != std::string::npos);
    const Outcome against = run({"report", out, "--against", "every=" + value, "--csv",
                                 folder.file("table.csv"), "--out", folder.file("page.html")});
    CHECK(against.exit_code == 0);
    CHECK(read_whole(folder.file("table.csv")).find("\n" + value + ",") != std::string::npos);
  }
}

TEST_CASE("the sweep in README.md runs, and its folder can be reported with a wildcard", "[figures]") {
  const TemporaryFolder folder;
  const auto blocks = blocks_of("README.md", "toml");
  REQUIRE(blocks.size() == 2);
  folder.write("stragglers.toml", blocks[0] + blocks[1]);
  const std::string out = folder.file("out");
  const Outcome outcome =
      run({"sweep", folder.file("stragglers.toml"), "--set", "training.epochs=0.1", "--out", out});
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("4 experiments ran") != std::string::npos);
  CHECK(outcome.out.find("\n2 seeds: intervals mean little; 5 or more are usual\n") != std::string::npos);
  CHECK(read_whole(out + "/results.csv").starts_with("rule,seed,accuracy,"));
  CHECK(read_whole(out + "/curves.csv").starts_with("rule,seed,run,look,seconds,"));

  Words words = {"report",
                 "--out",
                 folder.file("page.html"),
                 "--against",
                 "rule=pairwise",
                 "--csv",
                 folder.file("table.csv"),
                 "--curves",
                 folder.file("curves.csv")};
  std::set<std::string> entries;  // sorted, as a shell gives them
  for (const auto& entry : std::filesystem::directory_iterator(out)) entries.insert(entry.path());
  words.insert(words.end(), entries.begin(), entries.end());
  const Outcome reported = run(words);
  INFO(reported.out << reported.err);
  REQUIRE(reported.exit_code == 0);
  CHECK(reported.out.starts_with("4 runs   "));
  CHECK(reported.err.find("without results, skipped: ") != std::string::npos);
  CHECK(read_whole(folder.file("table.csv")).starts_with("rule,runs,"));
  CHECK(read_whole(folder.file("page.html")).find("Speed-ups are relative to rule=pairwise") !=
        std::string::npos);
  // The [sweep] is a complete file by itself, too.
  folder.write("alone.toml", blocks[1]);
  CHECK(run({"sweep", folder.file("alone.toml"), "--set", "model.name=softmax", "--dry-run"}).exit_code == 0);
}

TEST_CASE("the sweep in docs/EXPERIMENTS.md can be run as printed", "[figures]") {
  if (!all_seeds()) return;  // its estimate takes most of a minute
  const TemporaryFolder folder;
  const auto blocks = blocks_of("docs/EXPERIMENTS.md", "toml");
  REQUIRE(blocks.size() == 2);
  folder.write("sweep.toml", blocks[1]);
  const Outcome outcome = run({"sweep", folder.file("sweep.toml"), "--dry-run"});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("\nslow=10,crashes_per_minute=0.1,rule=pairwise,workers=1,seed=1  about ") !=
        std::string::npos);
}

// docs/RESULTS.md's script runs where Python has pandas and matplotlib; elsewhere the types are checked.
TEST_CASE("the curves of a sweep are read by the script in docs/RESULTS.md") {
  if (std::system("python3 -c 'import csv' > /dev/null 2>&1") != 0) {
    WARN("skipped: there is no python3");
    return;
  }
  const TemporaryFolder folder;
  folder.write("try.toml",
               "peers = 2\n[model]\nname = \"softmax\"\n[training]\nepochs = 0.3\n"
               "[[fault]]\npeer = 1\nslow = 2\n"
               "[sweep]\nfault.1.slow = [1, 10]\ngossip.rule = [\"pairwise\", \"d-psgd\"]\nseed = [1, 2]\n");
  REQUIRE(run({"sweep", folder.file("try.toml"), "--out", folder.file("runs/sweep")}).exit_code == 0);
  const auto scripts = blocks_of("docs/RESULTS.md", "python");
  REQUIRE(scripts.size() == 1);
  folder.write("plot.py", scripts[0]);
  const std::string command = "cd '" + folder.file("") + "' && python3 " + STARLING_SOURCE_DIR +
                              "/tests/cli/read_curves.py runs/sweep/curves.csv plot.py > told 2>&1";
  const int status = std::system(command.c_str());
  INFO(read_whole(folder.file("told")));
  CHECK(status == 0);
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
  refused(
      "[sweep]\ngossip.topology = [\"ring\", \"directed-exponential\"]\ngossip.rule = [\"pairwise\", "
      "\"d-psgd\"]\n",
      "rule=d-psgd,topology=directed-exponential: gossip.topology: 'directed-exponential' is directed, and "
      "the "
      "rule d-psgd requires links that go both ways; choose an undirected topology, or the rule push-sum");
  // What a run would find out only after it has read its data.
  refused("peers = 2\n[sweep]\ntraining.precision = [\"f32\", \"tf32\"]\n",
          "precision=tf32: training.precision: ");
  std::filesystem::create_directory(folder.file("table"));
  for (const char* part : {"table/train.csv", "table/test.csv"})
    folder.write(part, "a,b,label\n1,2,0\n3,4,1\n5,1,0\n");
  refused(
      "model.name = \"softmax\"\ndata.source = \"" + folder.file("table") + "\"\n[sweep]\npeers = [2, 4]\n",
      "peers=4: data.partition: ");
  refused(kSweep, "--threads: '0'", {"--threads", "0"});
  CHECK_FALSE(std::filesystem::exists(folder.file("out")));
  refused(kSweep, "--set: seed: ", {"--set", "seed=x"});
  const Outcome nothing = run({"sweep"});
  CHECK(nothing.exit_code == 2);
  CHECK(nothing.err.find("EXPERIMENT is missing") != std::string::npos);
}

}  // namespace starling::cli_tests
