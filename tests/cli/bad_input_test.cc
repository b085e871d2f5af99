// Wrong input gives one line on standard error and has no other effect.
#include <filesystem>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

struct BadInput {
  Words arguments;
  Words said;  // all of these are in the line
};

void check_refused(const BadInput& bad, const Environment& environment = {}) {
  std::string shown = "starling";
  for (const std::string& word : bad.arguments) shown += " " + word;
  INFO(shown);
  const Outcome outcome = run(bad.arguments, environment);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(is_one_line(outcome.err));
  for (const std::string& text : bad.said) CHECK(outcome.err.find(text) != std::string::npos);
}

TEST_CASE("a wrong command line gives one line with the error and where to find help") {
  for (const BadInput& bad : std::vector<BadInput>{
           {{}, {"a command is missing", "starling --help"}},
           {{"fly"}, {"unknown command 'fly'", "starling --help"}},
           {{"--fly"}, {"unknown option --fly", "starling --help"}},
           {{"model"}, {"a command is missing", "starling model --help"}},
           {{"model", "show"}, {"NAME is missing", "starling model show --help"}},
           {{"swarm", "--fly"}, {"unknown option --fly", "starling swarm --help"}},
           {{"swarm", "--fly=1"}, {"unknown option --fly", "starling swarm --help"}},
           {{"swarm", "--seed"}, {"--seed needs a value", "starling swarm --help"}},
           {{"swarm", "--seed", "1", "--seed", "2"}, {"--seed is given more than once"}},
           {{"swarm", "--json=maybe"}, {"--json takes no value"}},
           {{"swarm", "a.toml", "b.toml"}, {"unexpected argument 'b.toml'"}},
           {{"evaluate", "--data", "glyphs"}, {"FILE is missing"}},
           {{"topology", "show", "ring"}, {"--peers is missing"}},
       }) {
    check_refused(bad);
  }
}

TEST_CASE("a flag whose value is missing does not take the next flag") {
  for (const BadInput& bad : std::vector<BadInput>{
           {{"simulate", "--out", "--force"}, {"--out needs a value", "starling simulate --help"}},
           {{"simulate", "--name", "--out=x"}, {"--name needs a value"}},
           {{"topology", "show", "ring", "--peers", "5", "--out", "--json"}, {"--out needs a value"}},
           {{"report", "run", "--csv", "--curves", "c.csv"}, {"--csv needs a value"}},
           {{"simulate", "--out", "--log-level", "error"}, {"--out needs a value"}},
           {{"topology", "list", "--log-level", "--json"}, {"--log-level needs a value"}},
           {{"simulate", "--out", "--"}, {"--out needs a value"}},
       }) {
    check_refused(bad);
  }
  const TemporaryFolder folder;
  const Outcome named = run({"topology", "show", "ring", "--peers", "5", "--out=--json"}, {}, folder.path());
  CHECK(named.exit_code == 0);
  CHECK(std::filesystem::exists(folder.file("--json")));
  // A value that is no flag of the command may begin with dashes.
  CHECK(run({"topology", "show", "ring", "--peers", "5", "--out", "--x"}, {}, folder.path()).exit_code == 0);
  CHECK(std::filesystem::exists(folder.file("--x")));
}

TEST_CASE("a wrong value is rejected with the flag and the expected values") {
  for (const BadInput& bad : std::vector<BadInput>{
           {{"swarm", "--seed", "x"}, {"--seed", "'x'", "whole number"}},
           {{"swarm", "--peers", "0"}, {"--peers", "'0'", "1"}},
           {{"swarm", "--learning-rate", "-1"}, {"--learning-rate", "'-1'"}},
           {{"swarm", "--learning-rate", "nan"}, {"--learning-rate", "nan"}},
           {{"swarm", "--every", "sometimes"}, {"--every", "sometimes", "always"}},
           {{"swarm", "--pace", "fast"}, {"--pace", "fast"}},
           {{"swarm", "--rule", "telepathy"}, {"--rule", "telepathy", "pairwise"}},
           {{"swarm", "--optimizer", "luck"}, {"--optimizer", "luck", "sgd"}},
           {{"swarm", "--schedule", "cosine", "--seconds", "9"}, {"training.schedule", "cosine", "--epochs"}},
           {{"peer", "--schedule", "cosine"}, {"training.schedule", "cosine", "--steps"}},
           {{"simulate", "--warmup", "3"}, {"training.warmup", "training.epochs = 3"}},
           {{"simulate", "--warmup", "9 steps", "--steps", "9"}, {"training.warmup", "training.steps = 9"}},
           {{"simulate", "--warmup", "9 laps"}, {"--warmup", "'9 laps'", "100 steps", "1e6 tokens"}},
           {{"simulate", "--warmup", "9 tokens"}, {"training.warmup", "9 tokens", "no tokens"}},
           {{"swarm", "--warmup", "9 tokens"}, {"training.warmup", "9 tokens", "no tokens"}},
           {{"simulate", "--crop", "15"}, {"training.crop", "28x28", "at most 14"}},
           {{"swarm", "--crop", "15"}, {"training.crop", "28x28", "at most 14"}},
           {{"swarm", "--slow", "x"}, {"--slow", "PEER=FACTOR"}},
           {{"swarm", "--slow", "9=3"}, {"peer 9", "numbered from 0 to 3"}},
           {{"swarm", "--set", "batch"}, {"--set", "section.key=value"}},
           {{"swarm", "--set", "training.batchsize=3"}, {"--set", "training.batchsize", "batch_size"}},
           {{"swarm", "--set", "training.batch_size=no"}, {"--set", "training.batch_size", "'no'"}},
           {{"swarm", "--out", ""}, {"--out"}},
           {{"swarm", "--name", "../up"}, {"--name", "../up"}},
           {{"simulate", "--threads", "0"}, {"--threads", "'0'"}},
           {{"model", "show", "lenet", "--input", "28x28"}, {"--input", "28x28", "1x28x28"}},
           {{"model", "show", "lenet", "--input", "1x4x4"}, {"conv2"}},
           {{"model", "show", "lenet", "--batch-size", "0"}, {"--batch-size", "'0'"}},
           {{"topology", "show", "ring", "--peers", "none"}, {"--peers", "none"}},
           {{"topology", "show", "ring", "--peers", "4", "--format", "png"}, {"--format", "png", "svg"}},
       }) {
    check_refused(bad);
  }
}

TEST_CASE("a batch norm of one value per channel is refused") {
  TemporaryFolder folder;
  folder.write("bn.toml",
               "layers = [{ type = \"linear\", features = 4 }, \"batch norm\", \"relu\", \"linear\"]\n");
  Words words = {
      "simulate", "--peers", "1", "--model", folder.file("bn.toml"), "--data",       "glyphs", "--steps",
      "2",        "--looks", "0", "--out",   folder.file("run"),     "--batch-size", "1"};
  const Outcome refused = run(words);
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("training.batch_size: with 1 the batch norm 'bn1' has one value per channel") !=
        std::string::npos);
  words.back() = "2";
  CHECK(run(words).exit_code == 0);
}

TEST_CASE("unknown names are rejected with the known names") {
  for (const char* command : {"swarm", "simulate", "peer"}) {
    check_refused({{command, "--model", "brain"}, {"brain", "softmax", "lenet"}});
    check_refused({{command, "--data", "/nowhere"}, {"/nowhere", "glyphs"}});
    check_refused({{command, "--topology", "pretzel"}, {"pretzel", "exponential"}});
    check_refused({{command, "--partition", "greedy"}, {"greedy", "iid"}});
  }
  check_refused({{"model", "show", "brain"}, {"brain", "softmax"}});
  check_refused({{"data", "info", "/nowhere"}, {"/nowhere", "glyphs"}});
  check_refused({{"topology", "show", "pretzel", "--peers", "4"}, {"pretzel", "ring"}});
}

TEST_CASE("a rejected command writes nothing") {
  const TemporaryFolder folder;
  check_refused({{"swarm", "--topology", "pretzel", "--out", folder.file("run")}, {"pretzel"}});
  CHECK_FALSE(std::filesystem::exists(folder.file("run")));
}

TEST_CASE("an error in an experiment file names file, line and key") {
  const TemporaryFolder folder;
  folder.write("typo.toml", "seed = 1\n[training]\nlearning_rat = 0.1\n");
  check_refused(
      {{"swarm", folder.file("typo.toml")}, {"typo.toml", "line 3", "learning_rat", "learning_rate"}});
  check_refused({{"peer", "--config", folder.file("typo.toml")}, {"typo.toml", "line 3"}});
  folder.write("value.toml", "seed = 1\npeers = \"many\"\n");
  check_refused({{"simulate", folder.file("value.toml")}, {"value.toml", "line 2", "peers", "many"}});
  folder.write("broken.toml", "seed = \n");
  check_refused({{"swarm", folder.file("broken.toml")}, {"broken.toml", "line 1"}});
  check_refused({{"swarm", folder.file("absent.toml")}, {"absent.toml"}});
}

TEST_CASE("an error in an environment variable names the variable") {
  check_refused({{"swarm"}, {"STARLING_BATCH_SIZE", "'big'"}}, {{"STARLING_BATCH_SIZE", "big"}});
}

TEST_CASE("a peer's own flags are checked before it listens") {
  for (const BadInput& bad : std::vector<BadInput>{
           {{"peer", "--listen", "here"}, {"--listen", "'here'", "HOST:PORT"}},
           {{"peer", "--join", "there"}, {"--join", "'there'", "HOST:PORT"}},
           {{"peer", "--join", "127.0.0.1:0"}, {"--join", "port 0"}},
           {{"peer", "--advertise", "127.0.0.1:0"}, {"--advertise", "port 0"}},
           {{"peer", "--listen", "none", "--advertise", "h:1"}, {"--advertise", "--listen none"}},
           {{"peer", "--listen", "none", "--relay", "1Mbit/s"}, {"--relay", "--listen none"}},
           {{"peer", "--relay", "10"}, {"--relay", "'10'", "Mbit/s"}},
           {{"peer", "--relay", "1bit/s"}, {"--relay", "1bit/s", "8kbit/s"}},
           {{"peer", "--device", "cuda:"}, {"--device", "'cuda:'", "cuda:0"}},
           {{"peer", "--device", "abacus"}, {"--device", "abacus", "cpu"}},
           {{"peer", "--name", "a/b"}, {"--name", "a/b"}},
           {{"peer", "--slot", "4/4"}, {"--slot", "4/4"}},
           {{"peer", "--control-fd", "1"}, {"--control-fd"}},
           {{"peer", "--out", "/proc"}, {"--out", "cannot write to the folder /proc"}},
           {{"peer", "--peers", "3"}, {"unknown option --peers"}},
       }) {
    check_refused(bad);
  }
}

TEST_CASE("a joiner cannot set shared settings") {
  check_refused({{"peer", "--join", "127.0.0.1:1", "--batch-size", "3"}, {"--batch-size", "from the swarm"}});
  check_refused({{"peer", "--join", "127.0.0.1:1", "--set", "training.momentum=0.5"},
                 {"--set training.momentum", "from the swarm"}});
}

}  // namespace
}  // namespace starling::cli_tests
