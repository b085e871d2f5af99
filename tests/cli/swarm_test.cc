// Small swarms of real processes.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/cli/program.h"
#include "tests/seeds.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/experiment_file.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

Words small_swarm(const std::string& out, Words more) {
  Words words = {"swarm", "--peers", "2", "--model", "softmax", "--data", "glyphs", "--out", out, "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void check_fields_of(const json& summary) {
  for (const char* field : {"name",
                            "mode",
                            "seed",
                            "model",
                            "parameters",
                            "data",
                            "peers",
                            "topology",
                            "spectral_gap",
                            "rule",
                            "payload",
                            "start_seconds",
                            "seconds",
                            "wall_seconds",
                            "wall_training_seconds",
                            "samples",
                            "samples_per_second",
                            "accuracy",
                            "loss",
                            "accuracy_min",
                            "accuracy_max",
                            "consensus_distance",
                            "seconds_to_target",
                            "exchanges",
                            "bytes_sent",
                            "per_peer"}) {
    INFO(field);
    CHECK(summary.contains(field));
  }
}

// The model in the folder is the evaluated one, and no other files are left.
void check_results_in(const std::string& out, const json& summary) {
  CHECK(std::filesystem::exists(out + "/p0.log"));
  std::ifstream metrics(out + "/metrics.jsonl");
  std::set<std::string> heard;
  for (std::string line; std::getline(metrics, line);)
    heard.insert(json::parse(line).at("peer").get<std::string>());
  heard.erase("mean");  // evaluations, if the run lasts long enough for one
  CHECK(heard == std::set<std::string>{"p0", "p1"});

  const Outcome evaluated =
      run({"evaluate", "--checkpoint", out + "/model.safetensors", "--data", "glyphs", "--json"});
  REQUIRE(evaluated.exit_code == 0);
  CHECK(json::parse(evaluated.out).at("accuracy") == summary.at("accuracy"));
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(out))
    files.insert(entry.path().filename().string());
  CHECK(files == std::set<std::string>{"experiment.toml", "metrics.jsonl", "model.safetensors", "p0.log",
                                       "p0.safetensors", "p1.log", "p1.safetensors", "report.html",
                                       "summary.json", "timeline.jsonl"});
}

// The process whose command has all these words; -1: none.
pid_t process_with(const Words& words) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::set<std::string> has;
    for (std::string word; std::getline(file, word, '\0');) has.insert(word);
    if (std::ranges::all_of(words, [&](const std::string& word) { return has.contains(word); }))
      return std::stoi(entry.path().filename());
  }
  return -1;
}

TEST_CASE("a swarm of two processes learns, and its summary has every field") {
  const TemporaryFolder folder;
  const std::string out = folder.file("run");
  // With a pace, so that both have joined long before the end.
  const json summary = summary_of(
      run(small_swarm(out, {"--name", "two", "--steps", "100", "--pace", "40ms", "--slow", "1=2"})));
  check_fields_of(summary);
  CHECK(summary.at("name") == "two");
  CHECK(summary.at("mode") == "swarm");
  CHECK(summary.at("parameters") == 7850);
  CHECK(summary.at("data") == "glyphs");
  CHECK(summary.at("seconds_to_target").is_null());
  CHECK(summary.at("accuracy").get<double>() > 0.3);
  CHECK(summary.at("accuracy_min") <= summary.at("accuracy_max"));
  CHECK(summary.at("bytes_sent").get<std::uint64_t>() > 0);
  CHECK(summary.at("wall_seconds") >= summary.at("seconds"));
  CHECK(summary.at("exchanges").at("completed").get<std::uint64_t>() > 0);

  std::uint64_t samples = 0;
  REQUIRE(summary.at("per_peer").size() == 2);
  for (const json& peer : summary.at("per_peer")) {
    CHECK(peer.at("state") == "finished");
    CHECK(peer.at("steps") == 100);
    CHECK(peer.at("accuracy").get<double>() > 0.3);
    samples += peer.at("samples").get<std::uint64_t>();
  }
  CHECK(summary.at("samples") == samples);
  CHECK(summary.at("per_peer")[0].at("slow") == 1.0);
  CHECK(summary.at("per_peer")[1].at("slow") == 2.0);

  CHECK(json::parse(read_whole(out + "/summary.json")) == summary);
  check_results_in(out, summary);

  // The folder now contains results of another run than this.
  const Outcome refused = run(small_swarm(out, {"--steps", "1"}));
  CHECK(refused.exit_code == 2);
  CHECK(is_one_line(refused.err));
  CHECK(refused.err.find("--force") != std::string::npos);
  CHECK(json::parse(read_whole(out + "/summary.json")) == summary);
}

TEST_CASE("the same run again shows its results; another one of the same name gets a numbered folder") {
  const TemporaryFolder folder;
  const auto simulate = [&](const Words& more) {
    Words words = {"simulate", "--peers", "2", "--model", "softmax", "--steps", "3", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, {}, folder.path());
  };
  const Outcome first = simulate({});
  REQUIRE(first.exit_code == 0);
  const Outcome again = simulate({});
  CHECK(again.exit_code == 0);
  CHECK(again.out == first.out);
  CHECK(again.err.find("runs/run-1 holds the results of this run already") != std::string::npos);
  const Outcome other = simulate({"--batch-size", "7"});
  CHECK(other.exit_code == 0);
  CHECK(other.err.find("this one goes to runs/run-1-2") != std::string::npos);
  CHECK(read_whole(folder.file("runs/run-1-2/summary.json")) == other.out);
  CHECK(simulate({"--batch-size", "7"}).out == other.out);
  CHECK(read_whole(folder.file("runs/run-1/summary.json")) == first.out);
  CHECK(simulate({"--batch-size", "7", "--out", "runs/run-1"}).exit_code == 2);
}

TEST_CASE("the same run of data that have changed since is another one, and the file of a run says so") {
  const TemporaryFolder folder;
  const auto write_table = [&](int shift) {
    std::string table = "u,v,kind\n";
    for (int k = 0; k < 60; ++k)
      table +=
          std::to_string(k % 7 + shift) + "," + std::to_string(k % 5) + "," + std::to_string(k % 2) + "\n";
    folder.write("my.csv", table);
    folder.write("own.csv", table);
  };
  folder.write("peer.toml", "[[peer]]\nnumber = 1\nown_data = \"own.csv\"\n");
  for (const std::string command : {"simulate", "swarm"}) {
    write_table(0);
    const auto start = [&](const std::string& file, const Words& more) {
      Words words = {command,  file,           "--peers", "2",       "--model", "softmax", "--data",
                     "my.csv", "--batch-size", "4",       "--steps", "3",       "--name",  command};
      words.insert(words.end(), more.begin(), more.end());
      return run(words, {}, folder.path());
    };
    const std::string first = "runs/" + command + "-1", out = "--out";
    REQUIRE(start("peer.toml", {}).exit_code == 0);
    CHECK(start("peer.toml", {}).err.find("holds the results of this run already") != std::string::npos);
    CHECK(start(first + "/experiment.toml", {}).err.find("has changed") == std::string::npos);
    write_table(1);
    const Outcome refused = start("peer.toml", {out, first});
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("--out: data.source: the content of my.csv has changed since the run in " + first +
                           "; choose another folder, or use --force to repeat the run") != std::string::npos);
    const Outcome other = start(first + "/experiment.toml", {});
    CHECK(other.exit_code == 0);
    CHECK(other.err.find("this one goes to " + first + "-2") != std::string::npos);
    for (const std::string name : {"my.csv", "own.csv"})
      CHECK(other.err.find("the content of " + name + " has changed since a run wrote " + first +
                           "/experiment.toml") != std::string::npos);
  }
}

TEST_CASE("an interrupted simulation says where it stopped, and the same command offers to continue") {
  const TemporaryFolder folder;
  const std::string epochs = kSanitized ? "10" : "20";
  const Words words = {"simulate", "--peers", "2",     "--model",         "softmax",
                       "--epochs", epochs,    "--out", folder.file("run")};
  Program program(words);
  REQUIRE(eventually([&] { return std::filesystem::exists(folder.file("run/metrics.jsonl")); }));
  program.signal(SIGINT);
  const Outcome stopped = program.finish();
  INFO(stopped.err);
  CHECK(stopped.exit_code == 130);
  if (!std::filesystem::exists(folder.file("run/summary.json"))) return;  // it had no parameters yet
  CHECK(stopped.err.find("of " + epochs + "; the same command with --resume continues it") !=
        std::string::npos);
  const Outcome refused = run(words);
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("stopped at epoch") != std::string::npos);
  CHECK(refused.err.find("--resume") != std::string::npos);
  Words resumed = words;
  resumed.insert(resumed.end(), {"--resume", "--json"});
  const json summary = summary_of(run(resumed));
  CHECK(summary.at("interrupted") == false);
  CHECK(summary.at("epochs").get<double>() >= std::stod(epochs));
}

TEST_CASE("flags override variables, which override the file; --force replaces results") {
  const TemporaryFolder folder;
  const std::string out = folder.file("run");
  folder.write(
      "experiment.toml",
      "name = \"from-file\"\nseed = 5\npeers = 1\n[model]\nname = \"softmax\"\n[training]\nbatch_size = 16\n"
      "learning_rate = 0.01\nmomentum = 0.5\nsteps = 2\n");
  const Environment environment = {{"STARLING_LEARNING_RATE", "0.02"}, {"STARLING_MOMENTUM", "0.6"}};
  folder.write("summary.json", "{}");
  REQUIRE(run({"swarm", folder.file("experiment.toml"), "--momentum", "0.7", "--set", "seed=6", "--out", out,
               "--force"},
              environment)
              .exit_code == 0);
  training::Experiment resolved;
  REQUIRE(training::read_file(resolved, out + "/experiment.toml").ok());
  CHECK(resolved.name == "from-file");
  CHECK(resolved.training.batch_size == 16);
  CHECK(resolved.optimizer.learning_rate == 0.02);
  CHECK(resolved.optimizer.momentum == 0.7);
  CHECK(resolved.seed == 6);
  CHECK(resolved.optimizer.name == "sgd");
  CHECK_FALSE(resolved.end.epochs.has_value());
}

TEST_CASE("peers make exactly --steps steps, and a resumed peer makes the rest") {
  const TemporaryFolder folder;
  for (const std::uint64_t steps : {1, 700}) {
    CAPTURE(steps);
    const std::string out = folder.file("run" + std::to_string(steps));
    const json summary =
        summary_of(run({"swarm", "--peers", "2", "--model", "softmax", "--batch-size", "1", "--workers", "2",
                        "--steps", std::to_string(steps), "--out", out, "--json"}));
    for (const json& peer : summary.at("per_peer")) {
      CHECK(peer.at("steps") == steps);
      CHECK(peer.at("samples") == steps);
    }
  }
  const std::string checkpoints = folder.file("checkpoints");
  for (const std::string steps : {"50", "80"}) {
    const Outcome outcome =
        run({"peer", "--listen", "127.0.0.1:0", "--name", "lone", "--model", "softmax", "--batch-size", "1",
             "--steps", steps, "--checkpoints", checkpoints, "--resume", checkpoints});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(std::filesystem::exists(checkpoints + "/lone." + steps + ".safetensors"));
  }
}

// A run that is over before peers that only gossip would hear of one another's samples.
// With one worker each peer computes the same steps in every run, if all begin with equal parameters.
TEST_CASE("without exchanges swarm, simulate and the rule none have equal distances before settling") {
  const TemporaryFolder folder;
  std::set<double> distances;
  const Words common = {"--steps", "20", "--looks", "0", "--force"};
  for (const Words& rule : {Words{"--rule", "none"}, Words{"--rule", "pairwise", "--every", "1000 steps"},
                            Words{"--rule", "d-psgd", "--every", "1000 steps"}}) {
    Words words = small_swarm(folder.file("of-" + rule[1]), rule);
    words.insert(words.end(), common.begin(), common.end());
    for (const char* const command : {"swarm", "simulate"}) {
      words[0] = command;
      distances.insert(summary_of(run(words)).at("consensus_distance_before_settling").get<double>());
    }
  }
  CHECK(distances.size() == 1);
  CHECK(*distances.begin() > 0.01);
}

TEST_CASE("the summary of one peer does not speak of exchanges") {
  const TemporaryFolder folder;
  for (const char* command : {"swarm", "simulate"}) {
    const Outcome alone = run({command, "--peers", "1", "--model", "softmax", "--data", "glyphs", "--steps",
                               "5", "--out", folder.file(command)});
    INFO(alone.err);
    REQUIRE(alone.exit_code == 0);
    CHECK(alone.out.find("softmax on glyphs, 1 peer\n") != std::string::npos);
    for (const char* part : {"exchanges (", "gossip ", "replicas ", "consensus"})
      CHECK(alone.out.find(part) == std::string::npos);
  }
}

TEST_CASE("a short run consumes the samples that were asked for, and every peer takes part") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("table"));
  for (const auto& [name, rows] : {std::pair("train", 7000), {"test", 200}}) {
    std::string text = "label";
    for (int k = 0; k < 28; ++k) text += ",x" + std::to_string(k);
    for (int row = 0; row < rows; ++row) {
      text += "\n" + std::to_string(row % 2);
      for (int k = 0; k < 28; ++k) text += ',' + std::to_string((row * (k + 7) + row % 2 * k) % 101);
    }
    folder.write(std::string("table/") + name + ".csv", text + "\n");
  }
  json summary;
  // Peers that do not reply within a second are passed over, which costs samples. On a busy machine another
  // run shows the product.
  int runs = 0;
  CHECK(eventually([&] {
    summary =
        summary_of(run({"swarm", "--peers", "4", "--model", "softmax", "--data", folder.file("table"),
                        "--epochs", "20", "--out", folder.file("run" + std::to_string(++runs)), "--json"}));
    CHECK(summary.at("epochs").get<double>() >= 20);
    return summary.at("epochs").get<double>() <= 20 * 1.05;
  }));
  INFO(summary.dump());
  std::uint64_t samples = 0;
  for (const json& peer : summary.at("per_peer")) {
    CHECK(peer.at("state") == "finished");
    CHECK(peer.at("steps") > 0);
    samples += peer.at("samples").get<std::uint64_t>();
  }
  CHECK(summary.at("samples") == samples);
}

TEST_CASE("Ctrl-C ends a swarm early, and its results are written") {
  const TemporaryFolder folder;
  Program program(small_swarm(folder.file("run"), {"--seconds", "100000", "--pace", "5ms"}));
  REQUIRE(program.wait_for_error_text("2 training"));
  program.signal(SIGINT);
  const Outcome outcome = program.finish();
  INFO(outcome.err);
  CHECK(outcome.exit_code == 130);
  CHECK(outcome.err.find("starling swarm: stopped at epoch ") != std::string::npos);
  const json summary = json::parse(outcome.out);
  CHECK(summary.at("interrupted") == true);
  CHECK(summary.at("per_peer").size() == 2);
  for (const json& peer : summary.at("per_peer")) CHECK(peer.at("state") == "stopped");
  CHECK(json::parse(read_whole(folder.file("run/summary.json"))) == summary);
}

TEST_CASE("a second Ctrl-C ends a swarm at once") {
  const TemporaryFolder folder;
  Program program(small_swarm(folder.file("run"), {"--seconds", "100000", "--slow", "0=1000000"}));
  REQUIRE(program.wait_for_error_text("training"));
  program.signal(SIGINT);
  REQUIRE(program.wait_for_error_text("press Ctrl-C again"));
  auto ended = program.finish_within(kSecondCtrlC);
  if (!ended) {
    program.signal(SIGINT);
    ended = program.finish();
  }
  const Outcome& outcome = *ended;
  CHECK(outcome.exit_code == 130);
  // It may have ended before the second signal, with results.
  CHECK(outcome.out.empty() == (outcome.err.find("stopped at epoch") == std::string::npos));
}

TEST_CASE("a swarm rejects faults of virtual peers and creates no folder") {
  const TemporaryFolder folder;
  folder.write("liar.toml", "peers = 4\n[[fault]]\npeer = 3\npoison = \"sign-flip\"\n");
  const Outcome outcome = run({"swarm", folder.file("liar.toml"), "--out", folder.file("run")});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("poisoned peers exist only in 'starling simulate'") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.file("run")));
}

TEST_CASE("a crashed process is replaced, and the summary counts both", "[figures]") {
  const TemporaryFolder folder;
  folder.write("back.toml",
               "peers = 3\n[model]\nname = \"softmax\"\n[training]\nsteps = 400\npace = \"20ms\"\n"
               "[[peer]]\nnumber = 2\nworkers = 2\n"
               "[[fault]]\npeer = 1\ncrash = true\nfrom = \"3s\"\nback_after = \"500ms\"\n");
  const json summary =
      summary_of(run({"swarm", folder.file("back.toml"), "--out", folder.file("run"), "--json"}));
  CHECK(summary.at("per_peer").at(1).at("state") == "finished");
  CHECK(summary.at("per_peer").at(1).at("samples") > 64 * 400);  // with those of the first process
  CHECK(std::filesystem::exists(folder.file("run") + "/p1.2.log"));
  CHECK_FALSE(std::filesystem::exists(folder.file("run") + "/p2.2.log"));
}

TEST_CASE("a swarm survives a crash, a departure, a pause and a late arrival") {
  const TemporaryFolder folder;
  folder.write("faults.toml",
               "peers = 5\n[model]\nname = \"softmax\"\n[training]\nsteps = 300\npace = \"20ms\"\n"
               "[[fault]]\npeer = 1\ncrash = true\nfrom = \"1s\"\n"
               "[[fault]]\npeer = 2\nleave = true\nfrom = \"1500ms\"\n"
               "[[fault]]\npeer = 3\npause = true\nfrom = \"1s\"\nto = \"2s\"\n"
               "[[fault]]\npeer = 4\njoin = true\nfrom = \"1s\"\n");
  const json summary =
      summary_of(run({"swarm", folder.file("faults.toml"), "--out", folder.file("run"), "--json"}));
  const json& peers = summary.at("per_peer");
  REQUIRE(peers.size() == 5);
  CHECK(peers[0].at("state") == "finished");
  CHECK(peers[1].at("state") == "crashed");
  CHECK(peers[1].at("accuracy").is_null());
  CHECK(peers[2].at("state") == "left");
  CHECK(peers[3].at("state") == "finished");
  CHECK(peers[4].at("state") == "finished");
  CHECK(peers[4].at("steps") > 0);
}

TEST_CASE("a fault that limits a peer's links limits its exchanges", "[figures]") {
  const TemporaryFolder folder;
  folder.write("thin.toml",
               "peers = 2\n[model]\nname = \"softmax\"\n[training]\nsteps = 1200\npace = \"5ms\"\n"
               "[gossip]\nevery = \"2 steps\"\n"
               "[[fault]]\npeer = 1\nfrom = \"1s\"\nto = \"4s\"\n"
               "link = { latency = \"5ms\", bandwidth = \"1Mbit/s\", drop = 0.001 }\n");
  const json summary =
      summary_of(run({"swarm", folder.file("thin.toml"), "--out", folder.file("run"), "--json"}));
  for (const json& peer : summary.at("per_peer")) CHECK(peer.at("state") == "finished");
  // The number of exchanges of the peer over time.
  std::map<double, double> exchanges;
  std::ifstream metrics(folder.file("run/metrics.jsonl"));
  for (std::string line; std::getline(metrics, line);) {
    const json sample = json::parse(line);
    if (sample.at("peer") == "p1") exchanges[sample.at("seconds")] = sample.at("exchanges");
  }
  const auto first = exchanges.lower_bound(1.5), last = exchanges.lower_bound(3.8);
  REQUIRE(first != exchanges.end());
  REQUIRE(last != exchanges.end());
  // 7,850 parameters take a quarter of a second, in exchanges that either peer initiates.
  const double most = 2 * (1 + (last->first - first->first) * 1e6 / (7850 * 32));
  CHECK(last->second - first->second <= 2 * most);  // twice: reports can be late
  // At least 400 steps lie outside of the four seconds, on any machine.
  CHECK(summary.at("per_peer")[1].at("exchanges").get<double>() > 4 * most);
}

TEST_CASE("--looks sets the number of evaluations of the mean model", "[figures]") {
  const TemporaryFolder folder;
  const auto evaluations = [&folder](const char* name, const Words& more) {
    Words words = {"--epochs", "1", "--pace", "2ms"};
    words.insert(words.end(), more.begin(), more.end());
    const std::string out = folder.file(name);
    const json summary = summary_of(run(small_swarm(out, words)));
    CHECK(summary.at("seconds_to_target").is_null());
    std::ifstream metrics(out + "/metrics.jsonl");
    int count = 0;
    for (std::string line; std::getline(metrics, line);) {
      const json sample = json::parse(line);
      count += sample.at("peer") == "mean" && sample.at("accuracy").get<double>() > 0.05;
    }
    return std::pair(count, summary.at("epochs").get<double>());
  };
  CHECK(evaluations("none", {"--looks", "0"}).first == 0);
  // A peer can pass several at once, more of them on a busy machine.
  const auto [told, epochs] = evaluations("told", {"--looks", "8"});
  CHECK(told >= 1);
  CHECK(told <= 8 * epochs + 1);
  const auto [usual, usual_epochs] = evaluations("usual", {});
  CHECK(usual >= 1);
  CHECK(usual <= 20 * usual_epochs + 1);
}

TEST_CASE("the target accuracy ends a swarm, with another end or without") {
  for (const Words& end : {Words{}, Words{"--epochs", "500"}}) {
    const TemporaryFolder folder;
    Words words = {"--target-accuracy", "0.3", "--pace", "5ms"};
    words.insert(words.end(), end.begin(), end.end());
    const json summary = summary_of(run(small_swarm(folder.file("run"), words)));
    REQUIRE(summary.at("seconds_to_target").is_number());
    CHECK(summary.at("seconds_to_target") <= summary.at("seconds"));
    CHECK(summary.at("epochs").get<double>() < 50);
    CHECK(summary.at("accuracy").get<double>() > 0.25);
    std::ifstream metrics(folder.file("run/metrics.jsonl"));
    bool looked = false;
    for (std::string line; std::getline(metrics, line);) {
      const json sample = json::parse(line);
      looked = looked || (sample.at("peer") == "mean" && sample.at("accuracy").get<double>() >= 0.3);
    }
    CHECK(looked);
  }
}

TEST_CASE("an error of the first peer is the swarm's error") {
  const TemporaryFolder folder;
  folder.write("run-is-a-file", "");
  const Outcome outcome = run(small_swarm(folder.file("run-is-a-file"), {}));
  CHECK(outcome.exit_code == 2);
  CHECK(is_one_line(outcome.err));
  CHECK(outcome.err.find("run-is-a-file") != std::string::npos);

  folder.write("few.csv", "a,label\n1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n7,0\n8,1\n9,0\n10,1\n");
  const Outcome few = run({"swarm", "--peers", "12", "--model", "softmax", "--data", folder.file("few.csv"),
                           "--out", folder.file("few")});
  CHECK(few.exit_code == 2);
  CHECK(few.err.find("data.partition: ") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.file("few")));
}

TEST_CASE("a swarm ends when its first peer fails before anyone has made a step") {
  const TemporaryFolder folder;
  const std::string out = folder.file("run");
  Program swarm(small_swarm(out, {"--pace", "1h", "--epochs", "1"}));
  REQUIRE(eventually([&] { return std::filesystem::exists(out + "/p1.log"); }));
  const pid_t first = process_with({"--name", "p0", "--out", out});
  REQUIRE(first > 0);
  REQUIRE(kill(first, SIGKILL) == 0);
  const Outcome outcome = swarm.finish();
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err.find("p0 ended with signal 9") != std::string::npos);
  CHECK(outcome.err.find("before the run began") != std::string::npos);
}

}  // namespace
}  // namespace starling::cli_tests
