// Checkpoints of real peers that are killed at random moments and resume.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/ids.h"
#include "base/random.h"
#include "node/front/http_client.h"
#include "tests/catch.h"
#include "tests/cli/program.h"
#include "tests/seeds.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

Words named_peer(Words more) {
  Words words = {"peer", "--listen", "127.0.0.1:0", "--name", "p"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A table of 300 samples, which loads fast.
std::string table_in(const TemporaryFolder& folder) {
  Random random(3);
  std::string text = "a,b,c,label\n";
  for (int i = 0; i < 300; ++i) {
    const auto label = static_cast<double>(random.below(3));
    for (int k = 0; k < 3; ++k) text += std::to_string(random.normal() + label * k) + ",";
    text += std::to_string(static_cast<int>(label)) + "\n";
  }
  folder.write("table.csv", text);
  return folder.file("table.csv");
}

// A peer that writes checkpoints to the folder after every step, and resumes from it.
Words tireless(const std::string& data, const std::string& folder, Words more = {}) {
  Words words = named_peer({"--model", "mlp", "--data", data, "--batch-size", "16", "--checkpoints", folder,
                            "--resume", folder, "--checkpoint-every", "1 steps"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::set<std::string> checkpoints_in(const std::string& folder) {
  std::set<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") paths.insert(entry.path().string());
  return paths;
}

std::uint64_t fact(const std::string& path, const char* key) {
  const auto header = header_of(path);
  INFO(path);
  REQUIRE(header.has_value());
  return std::stoull(header->at("__metadata__").at(key).get<std::string>());
}

std::string newest_in(const std::string& folder) {
  std::string newest;
  std::uint64_t most = 0;
  for (const std::string& path : checkpoints_in(folder)) {
    const std::uint64_t steps = fact(path, "steps");
    if (steps < most) continue;
    most = steps;
    newest = path;
  }
  return newest;
}

// "... resumes from PATH: 12 steps, 192 samples"
std::pair<std::uint64_t, std::uint64_t> resumed_at(Program& program, const std::string& path) {
  const std::string steps = program.wait_for_error_word("resumes from " + path + ": ");
  const std::string samples = program.wait_for_error_word("resumes from " + path + ": " + steps + " steps, ");
  if (steps.empty() || samples.empty()) FAIL(program.error_text());
  return {std::stoull(steps), std::stoull(samples)};
}

}  // namespace

TEST_CASE("a peer that is killed repeatedly resumes and counts every sample once") {
  const TemporaryFolder folder;
  const std::string there = folder.file("there"), table = table_in(folder);
  Random random(11);
  std::uint64_t last_steps = 0, in_a_write = 0;
  const std::uint64_t lives = seeds(200);
  // Longer if no kill was in the middle of a write.
  const auto goes_on = [&](std::uint64_t life) {
    return life < lives || (!kSanitized && in_a_write == 0 && life < 10 * lives);
  };
  for (std::uint64_t life = 0; goes_on(life); ++life) {
    INFO("life " << life);
    // Read before the program starts, which removes old ones.
    const std::string newest = life > 0 ? newest_in(there) : "";
    const std::uint64_t newest_steps = life > 0 ? fact(newest, "steps") : 0;
    Program program(tireless(table, there));
    if (life > 0) {
      const auto [steps, samples] = resumed_at(program, newest);
      REQUIRE(steps == newest_steps);
      REQUIRE(samples == 16 * steps);
      REQUIRE(steps >= last_steps);
      last_steps = steps;
    } else {
      REQUIRE(program.wait_for_error_text("the peer begins without one"));
    }
    REQUIRE(program.wait_for_error_text("checkpoint written: "));
    ::usleep(static_cast<useconds_t>(random.below(6000)));  // at a random moment, perhaps within a write
    kill_at_once(program);
    for (const auto& entry : fs::directory_iterator(there)) {
      const std::string name = entry.path().filename().string();
      in_a_write += name.find(".safetensors.") != std::string::npos;
      REQUIRE(name.find(".damaged") == std::string::npos);
    }
    REQUIRE_FALSE(checkpoints_in(there).empty());
    REQUIRE(checkpoints_in(there).size() <= 4);  // a new one is written before the oldest is removed
    for (const std::string& path : checkpoints_in(there)) {
      REQUIRE(header_of(path).has_value());
      REQUIRE(fact(path, "samples") == 16 * fact(path, "steps"));
      REQUIRE(fact(path, "swarm_samples") == fact(path, "samples"));
    }
    REQUIRE(fact(newest_in(there), "steps") > last_steps);
  }
  WARN("of " << lives << " kills " << in_a_write << " were in the middle of a write; "
             << fact(newest_in(there), "steps") << " steps in all");
  if (!kSanitized) CHECK(in_a_write > 0);
}

TEST_CASE("checkpoints every ten steps are of the tenth, twentieth and thirtieth step, and of the last") {
  const TemporaryFolder folder;
  const std::string there = folder.file("there");
  const Outcome outcome = run(
      named_peer({"--model", "mlp", "--data", table_in(folder), "--batch-size", "16", "--pace", "30ms",
                  "--steps", "35", "--checkpoints", there, "--checkpoint-every", "10 steps", "--keep", "9"}));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  std::set<std::uint64_t> steps;
  for (const std::string& path : checkpoints_in(there)) steps.insert(fact(path, "steps"));
  CHECK(steps == std::set<std::uint64_t>{10, 20, 30, 35});
}

TEST_CASE("an interrupted run makes its number of steps in total") {
  const TemporaryFolder folder;
  const std::string there = folder.file("there"), table = table_in(folder);
  // Model, data, batches and end now come from the checkpoint.
  Program first(tireless(table, there, {"--steps", "300", "--pace", "2ms"}));
  REQUIRE(first.wait_for_error_text("checkpoint written: "));
  kill_at_once(first);
  const std::string killed = newest_in(there);
  const std::uint64_t killed_at = fact(killed, "steps");
  Program second(named_peer(
      {"--checkpoints", there, "--resume", there, "--checkpoint-every", "20 steps", "--pace", "2ms"}));
  CHECK(resumed_at(second, killed).first == killed_at);
  REQUIRE(second.wait_for_error_text("checkpoint written: "));
  second.signal(SIGTERM);  // orderly: nothing is lost
  CHECK(second.finish().exit_code == 0);
  const std::string written = newest_in(there);
  CHECK(fact(written, "steps") > killed_at);
  CHECK(fact(written, "steps") < 300);
  Program third(named_peer({"--checkpoints", there, "--resume", there, "--pace", "2ms"}));
  CHECK(resumed_at(third, written).first == fact(written, "steps"));
  const Outcome ended = third.finish();
  INFO(ended.err);
  CHECK(ended.exit_code == 0);
  const std::uint64_t steps = fact(newest_in(there), "steps");
  CHECK(steps == 300);
  CHECK(fact(newest_in(there), "samples") == 16 * steps);

  // Nothing is left to do, unless the end is changed.
  const Outcome again = run(named_peer({"--resume", there}));
  CHECK(again.exit_code == 0);
  CHECK(again.err.find("training ends after " + std::to_string(steps) + " steps") != std::string::npos);
  const Outcome longer =
      run(named_peer({"--checkpoints", there, "--resume", there, "--steps", "450", "--pace", "2ms"}));
  CHECK(longer.exit_code == 0);
  CHECK(fact(newest_in(there), "steps") == 450);
}

TEST_CASE("an interrupted peer continues bit for bit like an uninterrupted one") {
  const TemporaryFolder folder;
  const std::string table = table_in(folder);
  // The seed and the peer's name determine its batches.
  const auto words = [&](const char* where, Words more) {
    Words all = {"peer",   "--listen",      "127.0.0.1:0",      "--name", "lone", "--pace",
                 "10ms",   "--checkpoints", folder.file(where), "--keep", "1000", "--checkpoint-every",
                 "1 steps"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Words what = {"--model",     "mlp",   "--data",       table, "--steps", "60",
                      "--optimizer", "adamw", "--batch-size", "32",  "--seed",  "5"};
  REQUIRE(run(words("whole", what)).exit_code == 0);
  Program first(words("parts", what));
  REQUIRE(first.wait_for_error_text("checkpoint written: "));
  first.signal(SIGTERM);
  REQUIRE(first.finish().exit_code == 0);
  const std::uint64_t interrupted = fact(newest_in(folder.file("parts")), "steps");
  CHECK(interrupted > 0);
  CHECK(interrupted < 60);
  REQUIRE(run(words("parts", {"--resume", folder.file("parts")})).exit_code == 0);
  int compared = 0;
  for (const std::string& path : checkpoints_in(folder.file("parts"))) {
    const std::uint64_t steps = fact(path, "steps");
    const std::string other = folder.file("whole/lone." + std::to_string(steps) + ".safetensors");
    if (steps <= interrupted || !fs::exists(other)) continue;
    ++compared;
    const json here = header_of(path)->at("__metadata__"), there = header_of(other)->at("__metadata__");
    // Optimizer and order too: the tensors of both have the same checksum.
    for (const char* key :
         {"crc32", "sampler.0.random", "sampler.0.position", "optimizer.0.steps", "samples", "loss"})
      CHECK(here.at(key) == there.at(key));
  }
  CHECK(compared > 0);
}

TEST_CASE("a resumed peer joins with the swarm's parameters and its own counts") {
  const TemporaryFolder folder;
  const std::string there = folder.file("there");
  Program stays({"peer", "--listen", "127.0.0.1:0", "--name", "stays", "--model", "softmax", "--batch-size",
                 "16", "--pace", "5ms", "--http", "127.0.0.1:0"});
  const std::string asked_at = stays.wait_for_error_word("HTTP at ");
  const std::string address = stays.wait_for_error_word(" listens at ");
  const std::string at = address.substr(0, address.find(','));
  REQUIRE(stays.wait_for_error_text("training begins"));
  const Words joins = named_peer({"--join", at, "--checkpoints", there, "--resume", there,
                                  "--checkpoint-every", "20 steps", "--pace", "5ms"});
  Program first(joins);
  REQUIRE(first.wait_for_error_text("checkpoint written: "));
  kill_at_once(first);
  const std::string newest = newest_in(there);
  const std::uint64_t steps = fact(newest, "steps");
  Program second(joins);
  CHECK(resumed_at(second, newest).first == steps);
  REQUIRE(second.wait_for_error_text("training begins"));
  REQUIRE(second.wait_for_error_text("checkpoint written: "));
  const std::string later = newest_in(there);
  CHECK(fact(later, "steps") >= steps + 20);
  CHECK(fact(later, "samples") == 16 * fact(later, "steps"));
  CHECK(fact(later, "swarm_samples") > fact(later, "samples"));
  kill_at_once(second);
  const json status = json::parse(run({"status", "--at", asked_at, "--json"}).out);
  CHECK(status.at("swarm_samples").get<std::uint64_t>() > status.at("samples").get<std::uint64_t>());
  stays.signal(SIGTERM);
  CHECK(stays.finish().exit_code == 0);
}

TEST_CASE("the event log shows resumed, written and failed checkpoints") {
  const TemporaryFolder folder;
  const std::string there = folder.file("there"), table = table_in(folder);
  Program first(tireless(table, there, {"--pace", "2ms"}));
  REQUIRE(first.wait_for_error_text("checkpoint written: "));
  kill_at_once(first);
  const std::string newest = newest_in(there);
  Program second(tireless(table, there, {"--pace", "2ms", "--http", "127.0.0.1:0"}));
  const std::string asked_at = second.wait_for_error_word("HTTP at ");
  const auto [steps, samples] = resumed_at(second, newest);
  REQUIRE(second.wait_for_error_text("checkpoint written: ", 20));  // the log shows each
  const auto told = [&] {
    const auto answer = node::http_request(*Address::parse(asked_at), "GET", "/api/v1/events");
    REQUIRE(answer.ok());
    std::vector<json> of_checkpoints;
    const json all = json::parse(answer->body).at("events");
    for (const json& event : all)
      if (event.at("what") == "checkpoint") of_checkpoints.push_back(event);
    return of_checkpoints;
  };
  const auto before = told();
  REQUIRE(before.size() == 2);  // not one per checkpoint
  CHECK(before[0].at("level") == "info");
  CHECK(before[0].at("text") == "resumes from " + newest + ": " + std::to_string(steps) + " steps, " +
                                    std::to_string(samples) + " samples");
  CHECK(before[1].at("text").get<std::string>().starts_with("checkpoint written: " + there + "/p."));
  fs::rename(there, folder.file("gone"));
  REQUIRE(second.wait_for_error_text("no checkpoint, but training continues: "));
  const auto after = told();
  REQUIRE(after.size() == 3);
  CHECK(after[2].at("level") == "warning");
  // Which step fails depends on the moment: the file is written, flushed, read back and renamed.
  const auto text = after[2].at("text").get<std::string>();
  INFO(text);
  CHECK(text.starts_with("no checkpoint, but training continues: "));
  CHECK(text.find(there) != std::string::npos);
  kill_at_once(second);
}

TEST_CASE("a swarm counts the last samples of a killed peer when it is back") {
  const TemporaryFolder folder;
  const std::string table = table_in(folder);
  Program stays({"peer", "--listen", "127.0.0.1:0", "--name", "stays", "--model", "mlp", "--data", table,
                 "--batch-size", "16", "--pace", "5ms", "--http", "127.0.0.1:0"});
  const std::string asked_at = stays.wait_for_error_word("HTTP at ");
  const std::string address = stays.wait_for_error_word(" listens at ");
  REQUIRE(stays.wait_for_error_text("training begins"));
  const auto others = [&asked_at] {  // samples of all peers but `stays`
    const json status = json::parse(run({"status", "--at", asked_at, "--json"}).out);
    return status.at("swarm_samples").get<std::uint64_t>() - status.at("samples").get<std::uint64_t>();
  };
  std::uint64_t was_missing = 0;
  const std::string there = folder.file("there");
  // More lives than six only if each was killed after it had sent its last count.
  for (int life = 0; life < 6 || (was_missing == 0 && life < 40); ++life) {
    CAPTURE(life);
    const Words joins = named_peer({"--join", address, "--data", table, "--checkpoints", there, "--resume",
                                    there, "--checkpoint-every", "1 steps", "--state", folder.file("state")});
    Program quick(joins);
    REQUIRE(quick.wait_for_error_text("training begins"));
    REQUIRE(quick.wait_for_error_text("checkpoint written: "));
    kill_at_once(quick);
    others();  // its last message is processed before this request
    const std::uint64_t before = others(), of_life = fact(newest_in(there), "life_samples");
    REQUIRE(of_life > 0);
    was_missing += std::max(of_life, before) - before;

    // It returns and makes no step.
    Words rests = joins;
    rests.insert(rests.end(), {"--pace", "1h", "--http", "127.0.0.1:0"});
    Program back(rests);
    const std::string back_at = back.wait_for_error_word("HTTP at ");
    REQUIRE(back.wait_for_error_text("training begins"));
    const std::uint64_t expected = std::max(of_life, before);
    std::uint64_t counted = 0;
    eventually([&] { return (counted = others()) == expected; });
    CHECK(counted == expected);
    const json its = json::parse(run({"status", "--at", back_at, "--json"}).out);
    CHECK(its.at("swarm_samples").get<std::uint64_t>() >= counted);
    kill_at_once(back);
  }
  CHECK(was_missing > 0);  // otherwise the test shows nothing
  stays.signal(SIGTERM);
  CHECK(stays.finish().exit_code == 0);
}

TEST_CASE("a checkpoint that cannot be written is a warning, and training continues") {
  const TemporaryFolder folder;
  const std::string there = folder.file("there");
  fs::create_directory(there);
  // Folders occupy the checkpoints' names: not even root can overwrite a folder.
  for (int steps = 1; steps <= 60; ++steps)
    fs::create_directory(there + "/p." + std::to_string(steps) + ".safetensors");
  const Outcome outcome = run(named_peer({"--model", "softmax", "--steps", "60", "--checkpoints", there,
                                          "--resume", there, "--checkpoint-every", "1 steps"}));
  CHECK(outcome.exit_code == 2);  // a folder of such a name is not a checkpoint
  CHECK(outcome.err.find("none of the 60 checkpoints") != std::string::npos);
  for (int steps = 1; steps <= 60; ++steps)
    fs::remove(there + "/p." + std::to_string(steps) + ".safetensors");
  Program program(tireless(table_in(folder), there, {"--pace", "5ms"}));
  REQUIRE(program.wait_for_error_text("checkpoint written: "));
  fs::rename(there, folder.file("gone"));
  REQUIRE(
      program.wait_for_error_text("no checkpoint, but training continues: cannot write " + there + "/p."));
  fs::create_directory(there);
  program.signal(SIGTERM);
  const Outcome ended = program.finish();
  CHECK(ended.exit_code == 0);
  CHECK_FALSE(checkpoints_in(there).empty());  // written as soon as that was possible again
}

json evaluation_of(const std::string& checkpoint, const std::string& table) {
  return json::parse(run({"evaluate", "--checkpoint", checkpoint, "--data", table, "--json"}).out);
}

// Compares the predictions from a checkpoint with its evaluation; `exported` has the same model.
void check_predictions(const std::string& full, const std::string& exported, const std::string& table,
                       const json& score) {
  const json predicted = json::parse(run({"predict", "--checkpoint", full, "--data", table, "--json"}).out);
  double correct = 0, loss = 0;
  for (const json& it : predicted.at("predictions")) {
    const auto probability = it.at("probability").get<double>();
    CHECK(probability > 1.0 / 3 - 1e-9);
    CHECK(probability <= 1);
    correct += it.at("class") == it.at("label");
    if (it.at("class") == it.at("label")) loss -= std::log(probability);
  }
  const auto samples = static_cast<double>(predicted.at("predictions").size());
  CHECK(samples == score.at("samples").get<double>());
  CHECK(correct / samples == Approx(score.at("accuracy").get<double>()));
  CHECK(loss / samples <= score.at("loss").get<double>() + 1e-6);
  const Outcome csv = run({"predict", "--checkpoint", exported, "--data", table, "--limit", "5"});
  CHECK(csv.exit_code == 0);
  CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 6);
  CHECK(csv.out.starts_with("sample,class,probability,label,line\n0,"));
}

// With a learning rate of 0 a run ends with the parameters that it began with.
void check_runs_from(const Words& checkpoints, const std::string& table, const json& score) {
  const TemporaryFolder folder;
  const auto evaluated = [&](const std::string& path) { return evaluation_of(path, table); };
  for (const std::string& file : checkpoints) {
    INFO(file);
    for (const char* rule : {"pairwise", "all-reduce"}) {
      const std::string results = folder.file("run");
      const Outcome simulated =
          run({"simulate", "--model", "mlp", "--data", table, "--peers", "2", "--steps", "3",
               "--learning-rate", "0", "--rule", rule, "--init", file, "--out", results, "--force"});
      INFO(simulated.err);
      REQUIRE(simulated.exit_code == 0);
      CHECK(evaluated(results + "/model.safetensors").at("loss").get<double>() ==
            Approx(score.at("loss").get<double>()));
    }
    REQUIRE(run(named_peer({"--model", "mlp", "--data", table, "--steps", "3", "--learning-rate", "0",
                            "--init", file, "--out", folder.file("p")}))
                .exit_code == 0);
    CHECK(evaluated(folder.file("p/p.safetensors")).at("loss") == score.at("loss"));
  }
  const Outcome swarm =
      run({"swarm", "--model", "mlp", "--data", table, "--peers", "2", "--steps", "50", "--pace", "10ms",
           "--learning-rate", "0", "--init", checkpoints[0], "--out", folder.file("swarm")});
  INFO(swarm.err);
  REQUIRE(swarm.exit_code == 0);
  CHECK(evaluated(folder.file("swarm/model.safetensors")).at("loss").get<double>() ==
        Approx(score.at("loss").get<double>()));
}

TEST_CASE("evaluate, export, predict and --init read the same model from a checkpoint") {
  const TemporaryFolder folder;
  const std::string there = folder.file("there"), table = table_in(folder),
                    out = folder.file("export.safetensors");
  REQUIRE(run(named_peer({"--model", "mlp", "--data", table, "--steps", "80", "--checkpoints", there,
                          "--export", folder.file("at-end.safetensors")}))
              .exit_code == 0);
  const std::string full = newest_in(there);
  const Outcome exported = run({"export", "--checkpoint", full, "--out", out});
  INFO(exported.err);
  REQUIRE(exported.exit_code == 0);
  const json header = *header_of(out);
  CHECK(header.at("__metadata__").at("model") == "mlp");
  CHECK_FALSE(header.at("__metadata__").contains("checkpoint"));
  for (const auto& [name, tensor] : header.items()) CHECK(name.find("optimizer.") == std::string::npos);
  CHECK(fs::file_size(out) < fs::file_size(full) / 2);

  const auto evaluated = [&](const std::string& path) { return evaluation_of(path, table); };
  const json score = evaluated(full);
  CHECK(evaluated(out).at("loss") == score.at("loss"));
  CHECK(evaluated(folder.file("at-end.safetensors")).at("loss") == score.at("loss"));
  const json at_end = *header_of(folder.file("at-end.safetensors"));
  for (const auto& [name, tensor] : at_end.items()) CHECK(name.find("optimizer.") == std::string::npos);

  check_predictions(full, out, table, score);
  check_runs_from({full, out}, table, score);

  for (const char* command : {"peer", "swarm", "simulate"}) {
    const Outcome refused =
        run({command, "--model", "softmax", "--data", table, "--init", full, "--out", folder.file("none")});
    INFO(refused.err);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("model.init: " + full + " holds another model: tensor 'fc1.weight' has shape") !=
          std::string::npos);
  }
  CHECK(run({"predict", "--checkpoint", full, "--data", table, "--limit", "0"}).exit_code == 2);
  // The model can also be named without its flag.
  const Outcome named = run({"evaluate", full, "--data", table}),
                flagged = run({"evaluate", "--checkpoint", full, "--data", table});
  CHECK(named.exit_code == 0);
  CHECK(named.out == flagged.out);
  const Outcome twice = run({"evaluate", full, "--checkpoint", full, "--data", table});
  CHECK(twice.exit_code == 2);
  CHECK(contains(twice.err, "--checkpoint cannot be combined with FILE"));
  CHECK(run({"export", "--checkpoint", table, "--out", out}).exit_code == 2);
}

TEST_CASE("wrong checkpoint flags give one line") {
  const TemporaryFolder folder;
  folder.write("text", "nothing\n");
  fs::create_directory(folder.file("empty"));
  const auto refusal = [&](Words more) {
    const Outcome outcome = run(named_peer(std::move(more)));
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err.substr(outcome.err.rfind("starling peer: "))));
    return outcome.err;
  };
  const auto says = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  says(refusal({"--resume", "x", "--init", "y"}), "--init cannot be combined with --resume");
  says(refusal({"--keep", "3"}), "--keep has no effect without --checkpoints DIR");
  says(refusal({"--checkpoints", "d", "--keep", "0"}), "--keep: '0' is not a whole number from 1 to");
  says(refusal({"--checkpoints", "d", "--checkpoint-every", "always"}),
       "'always' is neither a time such as 30s nor");
  says(refusal({"--checkpoints", "d", "--checkpoint-every", "0 steps"}), "--checkpoint-every: '0 steps'");
  says(refusal({"--checkpoints", ""}), "--checkpoints: the path is empty");
  says(refusal({"--export", ""}), "--export: expected the path of a file");
  says(refusal({"--export", folder.file("empty")}), "--export: expected the path of a file");
  says(refusal({"--export", folder.file("absent/x")}),
       "--export: the folder " + folder.file("absent") + " does not exist");
  says(refusal({"--checkpoints", folder.file("text")}),
       "--checkpoints: cannot create the folder " + folder.file("text"));
  says(refusal({"--resume", folder.file("absent")}), "--resume: cannot read " + folder.file("absent"));
  says(refusal({"--resume", folder.file("text")}), folder.file("text") + " is not a usable safetensors file");
  says(refusal({"--resume", folder.file("empty")}),
       "the folder " + folder.file("empty") + " has no checkpoint");
}

}  // namespace starling::cli_tests
