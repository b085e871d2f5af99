// Kinds of runs in a report: their names, settings without effect, repeated seeds, and the curves as CSV.
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "lab/report/report.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/lab/report_folders.h"
#include "training/runs/records/files.h"

namespace starling::lab {
namespace {

// Runs of a made-up sweep: slowness, rule, seed, and more lines of [gossip].
struct MadeUpRun {
  std::string slow, rule, seed, more;
};

std::vector<std::string> write_runs(const Folders& folders, const std::vector<MadeUpRun>& runs) {
  std::vector<std::string> paths;
  for (const MadeUpRun& run : runs) {
    const std::string name = "run-" + std::to_string(paths.size());
    paths.push_back(folders.summary(name, std::stoull(run.seed), 8.0));
    folders.write(name, "experiment.toml",
                  "name = \"made-up\"\nseed = " + run.seed + "\n\n[training]\ntarget_accuracy = 0.85\n\n" +
                      "[gossip]\nrule = \"" + run.rule + "\"\n" + run.more +
                      "\n[[fault]]\npeer = 1\nslow = " + run.slow + "\n");
  }
  return paths;
}

Report report_of(const std::vector<std::string>& paths, const ReportOptions& options = {}) {
  auto report = read_report(paths, options);
  if (!report) FAIL(report.error().message);
  return std::move(*report);
}

}  // namespace

TEST_CASE("a kind of run is found by its name, with spaces, with whole keys, or by a folder of it") {
  const Folders folders;
  const auto paths = write_runs(folders, {{"1", "pairwise", "1", ""},
                                          {"1", "d-psgd", "1", ""},
                                          {"10", "pairwise", "1", ""},
                                          {"10", "d-psgd", "1", ""},
                                          {"2.5", "push-sum", "1", ""}});
  const Report report = report_of(paths);
  CHECK(report.keys == std::vector<std::string>{"fault.1.slow", "gossip.rule"});
  CHECK(report.names == std::vector<std::string>{"slow", "rule"});
  CHECK(report.groups[3].label == "slow=10,rule=d-psgd");
  CHECK(contains(to_csv(report), "slow,rule,runs,"));
  for (const char* name :
       {"slow=10,rule=d-psgd", "slow=10, rule=d-psgd", "fault.1.slow=10,gossip.rule=d-psgd",
        " gossip.rule = d-psgd , slow = 10.0 ", "slow=10,rule=d-psgd,seed=1", "slow=10,rule=d-psgd,peer=1"}) {
    CAPTURE(name);
    const auto found = find_group(report, name);
    REQUIRE((found.ok() ? "" : found.error().message) == std::string());
    CHECK(*found == 3);
  }
  for (const char* name : {"rule=push-sum", "push-sum", "2.5", "slow=2.5"})
    CHECK(*find_group(report, name) == 4);
  const std::string kinds =
      ", to compare against; there are: slow=1,rule=pairwise; slow=1,rule=d-psgd; slow=10,rule=pairwise; "
      "slow=10,rule=d-psgd; slow=2.5,rule=push-sum";
  CHECK(find_group(report, "rule=d-psgd").error().message ==
        "several kinds of run have 'rule=d-psgd'" + kinds);
  CHECK(find_group(report, "slow=3").error().message == "no kind of run is called 'slow=3'" + kinds);
  CHECK_FALSE(find_group(report, "").ok());
  CHECK_FALSE(find_group(report, ",").ok());
}

TEST_CASE("a value with commas and equals signs is part of a kind's name") {
  const Folders folders;
  const auto paths = {folders.summary("a", 1, 8.0, "random-regular:k=4,seed=1"),
                      folders.summary("b", 1, 8.0, "random-regular:k=4,seed=2")};
  const Report report = report_of(paths);
  CHECK(*find_group(report, "topology=random-regular:k=4,seed=2") == 1);
  CHECK(*find_group(report, "random-regular:k=4,seed=2") == 1);
  CHECK(*find_group(report, "topology=random-regular-k-4-seed-2") == 1);  // as in the name of a folder
}

TEST_CASE("the kinds of a sweep are in the order of its file, and a page of single runs says so") {
  const Folders folders;
  folders.summary("sweep/a", 1, 8.0, "ring");
  folders.summary("sweep/b", 1, 4.0, "star");
  const auto labels = [&] {
    std::vector<std::string> all;
    for (const ReportGroup& group : report_of({folders.path + "/sweep"}).groups) all.push_back(group.label);
    return all;
  };
  CHECK(labels() == std::vector<std::string>{"topology=ring", "topology=star"});
  folders.write("sweep", "results.json", R"({"runs": [{"folder": "b"}, {"folder": "a"}]})");
  CHECK(labels() == std::vector<std::string>{"topology=star", "topology=ring"});
  const std::string page = to_html(report_of({folders.path + "/sweep"}));
  CHECK(contains(page, "One run of each kind.</caption>"));
  CHECK(contains(page, "<td>0.5×"));
  CHECK_FALSE(contains(page, "geometric means over seeds with 95 %"));
}

TEST_CASE("a setting without effect makes no kind of its own") {
  const Folders folders;
  const auto paths = write_runs(folders, {{"1", "pairwise", "1", "clip = 0.1\n"},
                                          {"1", "pairwise", "2", "clip = 0.5\n"},
                                          {"1", "clipped", "1", "clip = 0.1\n"},
                                          {"1", "clipped", "1", "clip = 0.5\n"}});
  const Report report = report_of(paths);
  REQUIRE(report.groups.size() == 3);
  CHECK(report.groups[0].label == "rule=pairwise");
  CHECK(report.groups[0].counted.size() == 2);
  CHECK(report.groups[1].label == "clip=0.1,rule=clipped");
  CHECK(contains(to_csv(report), "\n,pairwise,2,"));
  CHECK(*find_group(report, "clip=0.1,rule=pairwise") == 0);
  CHECK(report_of({paths[0], paths[1]}).groups.size() == 1);
}

TEST_CASE("several settings that a kind does not have share their words in its label") {
  const Folders folders;
  const auto paths = write_runs(folders, {{"1", "pairwise", "1", ""}, {"1", "pairwise", "2", ""}});
  const std::string file = "name = \"made-up\"\n\n[[fault]]\npeer = 1\n";
  folders.write("run-0", "experiment.toml", file + "pause = true\nfrom = 1\nto = 2\n");
  folders.write("run-1", "experiment.toml", file + "slow = 2\n");
  const Report report = report_of(paths);
  REQUIRE(report.groups.size() == 2);
  CHECK(report.groups[0].label == "from=1,pause=true,slow=not set,to=2");
  CHECK(report.groups[1].label == "slow=2,from/pause/to not set");
  for (std::size_t i = 0; i < 2; ++i) CHECK(*find_group(report, report.groups[i].label) == i);
}

TEST_CASE("simulations that repeat a seed of their kind count once") {
  const Folders folders;
  const auto paths = write_runs(folders, {{"1", "pairwise", "1", "clip = 0.1\n"},
                                          {"1", "pairwise", "1", "clip = 0.5\n"},
                                          {"1", "pairwise", "2", "clip = 0.5\n"}});
  const Report report = report_of(paths);
  REQUIRE(report.groups.size() == 1);
  CHECK(report.groups[0].runs.size() == 3);
  CHECK(report.groups[0].counted == std::vector<std::size_t>{0, 2});
  CHECK(report.groups[0].seconds_to_target->count == 2);
  CHECK(
      contains(to_html(report), "Simulations that repeat a seed of their kind are not counted: 1 (run-1)."));
}

TEST_CASE("a report says that few seeds give intervals that mean little") {
  const Folders folders;
  std::vector<MadeUpRun> runs;
  for (const char* seed : {"1", "2", "3", "4", "5"}) runs.push_back({"1", "pairwise", seed, ""});
  const auto paths = write_runs(folders, runs);
  CHECK(few_seeds(report_of(paths)).empty());
  CHECK(few_seeds(report_of({paths[0]})).empty());
  const Report two = report_of({paths[0], paths[1]});
  CHECK(few_seeds(two) == "2 seeds: intervals mean little; 5 or more are usual");
  CHECK(contains(to_html(two), "2 seeds: intervals mean little"));
}

TEST_CASE("a time to target has an interval only if all runs reached it, and none if all times are equal") {
  const Folders folders;
  const std::vector<std::string> paths = {folders.summary("a", 1, 8.0), folders.summary("b", 2, 6.0),
                                          folders.summary("c", 3, 6.0),
                                          folders.summary("d", 4, std::nullopt)};
  CHECK(report_of({paths[0], paths[1]}).groups[0].seconds_to_target->interval.has_value());
  CHECK_FALSE(report_of({paths[1], paths[2]}).groups[0].seconds_to_target->interval.has_value());
  const Report some = report_of({paths[0], paths[1], paths[3]});
  CHECK(some.groups[0].reached == 2);
  CHECK_FALSE(some.groups[0].seconds_to_target->interval.has_value());
}

TEST_CASE("the time to a run's own target is interpolated between two evaluations") {
  const Folders folders;
  const std::string run = folders.summary("one", 1, 5.5);  // its target is 0.85
  folders.write("one", "metrics.jsonl",
                R"({"seconds":4.5,"peer":"mean","steps":10,"samples":100,"exchanges":4,"accuracy":0.8})"
                "\n"
                R"({"seconds":6.5,"peer":"mean","steps":20,"samples":200,"exchanges":8,"accuracy":0.9})"
                "\n");
  // Half way between the evaluations, one second before the second one, which was 5.5 s after the first step.
  CHECK(std::abs(*report_of({run}).runs[0].seconds_to_target - 4.5) < 1e-9);
}

TEST_CASE("times are measured to a loss if that is the target of all runs") {
  const Folders folders;
  const std::string run = folders.summary("one", 1, 5.5);
  folders.write("one", "experiment.toml", "name = \"made-up\"\nseed = 1\n\n[training]\ntarget_loss = 2.5\n");
  folders.write(
      "one", "metrics.jsonl",
      R"({"seconds":4.5,"peer":"mean","steps":10,"samples":100,"exchanges":4,"loss":3,"accuracy":0.1})"
      "\n"
      R"({"seconds":6.5,"peer":"mean","steps":20,"samples":200,"exchanges":8,"loss":2,"accuracy":0.9})"
      "\n");
  const Report report = report_of({run});
  CHECK(report.target == 2.5);
  CHECK(report.target_is_loss);
  CHECK(target_text(report) == "a loss of 2.5");
  CHECK(std::abs(*report.runs[0].seconds_to_target - 4.5) < 1e-9);
  CHECK(report.groups[0].reached == 1);
  const std::string page = to_html(report), csv = to_csv(report);
  CHECK(contains(page, "seconds to a loss of 2.5"));
  CHECK(contains(page, "Time to a loss of 2.5"));
  CHECK(contains(csv, ",target_loss\n"));
  CHECK(csv.ends_with(",2.5\n"));
  CHECK(contains(csv, ",1,,1,"));  // no target accuracy

  // A run with an accuracy of the same value as its target has another one.
  const std::string other = folders.summary("other", 1, 5.5);
  folders.write("other", "experiment.toml",
                "name = \"made-up\"\nseed = 2\n\n[training]\ntarget_accuracy = 2.5\n");
  CHECK_FALSE(report_of({run, other}).target.has_value());
}

TEST_CASE("all curves are one CSV with a line per run and evaluation, whose numbers are numbers") {
  const Folders folders;
  auto paths = write_runs(folders, {{"1", "pairwise", "7", ""}, {"10", "pairwise", "8", ""}});
  folders.write(
      "run-0", "metrics.jsonl",
      R"({"seconds":1,"peer":"p0","steps":5,"samples":50,"exchanges":4,"bytes_sent":100,"loss":2.0})"
      "\n"
      R"({"seconds":1.25,"peer":"mean","steps":10,"samples":100,"exchanges":4,"bytes_sent":250,)"
      R"("loss":1.9,"accuracy":0.5,"consensus_distance":null})"
      "\n");
  const auto csv = curves_csv(report_of(paths));
  REQUIRE(csv.ok());
  CHECK(*csv ==
        "slow,seed,run,look,seconds,samples,bytes_sent,accuracy,loss,training_loss,consensus_distance,end\n"
        "1,7,run-0,1,1.25,100,250,0.5,1.9,2,,false\n"
        "1,7,run-0,2,20,1000,4000,0.9,,2,,true\n"
        "10,8,run-1,1,20,1000,4000,0.9,,,,true\n");
}

TEST_CASE("files and folders without results are skipped beside others that have some") {
  const Folders folders;
  const std::string run = folders.summary("one", 1, 8.0);
  folders.write("other", "notes.txt", "no result");
  const std::string file = folders.path + "/other/notes.txt", folder = folders.path + "/other";
  const Report report = report_of({file, run, folder});
  CHECK(report.runs.size() == 1);
  CHECK(report.skipped == std::vector<std::string>{file, folder});
  const auto none = read_report({file, folder});
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message == file + " is a file, not the folder of a run");
}

TEST_CASE("an interrupted run is marked, and counts only if it had reached the target") {
  const Folders folders;
  const auto interrupt = [&](const std::string& path) {
    const std::string file = path + "/summary.json";
    std::string text = *training::read_text(file, 1 << 20);
    const std::string before = "\"interrupted\":false,\"epochs\":0.0,\"epochs_asked\":null";
    REQUIRE(contains(text, before));
    text.replace(text.find(before), before.size(),
                 "\"interrupted\":true,\"epochs\":0.4,\"epochs_asked\":3.0");
    std::ofstream(file) << text;
  };
  const auto paths = write_runs(folders, {{"1", "pairwise", "1", ""},
                                          {"1", "pairwise", "1", ""},  // the interrupted run was repeated
                                          {"1", "pairwise", "2", ""},
                                          {"1", "pairwise", "3", ""},
                                          {"10", "pairwise", "1", ""}});
  folders.summary("run-0", 1, std::nullopt);
  folders.write("run-0", "experiment.toml",
                "name = \"made-up\"\nseed = 1\n\n[training]\ntarget_accuracy = 0.85\n\n[gossip]\nrule = "
                "\"pairwise\"\n\n[[fault]]\npeer = 1\nslow = 1\n");
  interrupt(paths[0]);
  interrupt(paths[3]);  // had reached the target
  const Report report = report_of(paths);
  REQUIRE(report.groups.size() == 2);
  CHECK(report.groups[0].runs == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(report.groups[0].counted == std::vector<std::size_t>{1, 2, 3});
  CHECK(report.groups[0].reached == 3);
  CHECK(interrupted_at(report.runs[0]) == "interrupted at epoch 0.4 of 3");
  const std::string page = to_html(report);
  CHECK(contains(page, "<span class=\"badge\">2 of 4 interrupted</span>"));
  CHECK(
      contains(page, "Interrupted runs count only if they had reached the target; not counted: 1 (run-0)."));
  CHECK_FALSE(contains(page, "repeat a seed"));
  // Without a complete run of its kind there is nothing to count.
  const Report alone = report_of({paths[0], paths[4]});
  CHECK(alone.groups[0].counted.empty());
  CHECK(contains(to_html(alone), "<span class=\"badge\">interrupted</span>"));
  CHECK(contains(to_csv(alone), "\n1,0,0.85,0,,,"));
}

TEST_CASE("the table of one run has its result and no statistics") {
  const Folders folders;
  const std::string missed = folders.summary("missed", 1, std::nullopt),
                    reached = folders.summary("reached", 1, 8.0);
  const std::string page = to_html(report_of({missed}));
  CHECK(contains(page, "<td>not reached</td><td>90.00 %</td><td>not evaluated</td><td>20</td>"));
  CHECK_FALSE(contains(page, "<td>-</td>"));
  CHECK_FALSE(contains(page, "speed-up"));
  CHECK(contains(to_html(report_of({reached})), "<td>8</td><td>90.00 %</td>"));
}

TEST_CASE("different graphs from files of one name are different kinds") {
  const Folders folders;
  std::vector<std::string> paths;
  for (const char* topology :
       {"edges:file=g.txt;4;0:1,2,3", "edges:file=g.txt;4;0:1;1:2;2:3", "edges:file=g.txt;4;0:1,2,3"}) {
    const std::string name = "run-" + std::to_string(paths.size());
    paths.push_back(folders.summary(name, paths.size() + 1, 8.0, topology));
  }
  const Report report = report_of(paths);
  REQUIRE(report.groups.size() == 2);
  CHECK(report.groups[0].label == "topology=file:g.txt");
  CHECK(report.groups[0].runs == std::vector<std::size_t>{0, 2});
  CHECK(report.groups[1].label == "topology=file:g.txt (2)");
  CHECK(contains(report.runs[1].graph_text, "4 peers, 3 links, diameter 3"));
  CHECK(*find_group(report, "file:g.txt") == 0);
}

namespace {

// A simulation with what it was made from.
std::string write_run(const Folders& folders, const std::string& name, std::uint64_t seed,
                      const std::string& trace, const std::string& program, const std::string& data,
                      const std::string& settings) {
  folders.summary(name, seed, 8.0);
  auto summary =
      training::parse_summary(*training::read_text(folders.path + "/" + name + "/summary.json", 1 << 20));
  REQUIRE(summary.ok());
  summary->trace_hash = trace;
  summary->made_from = {program, "avx2", {{"data.source", data}}};
  folders.write(name, "summary.json", training::to_json(*summary));
  return folders.write(name, "experiment.toml", "seed = " + std::to_string(seed) + "\n" + settings);
}

}  // namespace

TEST_CASE("runs with other data, networks or first parameters of the same name are other kinds") {
  const Folders folders;
  const auto net = [](int features, const char* more) {
    return "[model]\nname = \"net\"\nlayers = [\n  { type = \"linear\", features = " +
           std::to_string(features) + " },\n" + more +
           "  { type = \"linear\", features = 32 },\n  \"linear\",\n]\n";
  };
  const std::string data = "[data]\nsource = \"my.csv\"\n", moved = "[data]\nsource = \"copy/my.csv\"\n";
  std::vector<std::string> runs;
  for (const std::uint64_t seed : {1, 2}) {
    const std::string k = std::to_string(seed);
    runs.push_back(write_run(folders, "a" + k, seed, "1" + k, "0.3.0", "aa", net(8, "") + data));
    runs.push_back(write_run(folders, "b" + k, seed, "2" + k, "0.3.0", "bb", net(8, "") + data));
    runs.push_back(write_run(folders, "c" + k, seed, "3" + k, "0.3.0", "aa", net(128, "") + data));
    runs.push_back(write_run(folders, "d" + k, seed, "4" + k, "0.3.0", "aa", net(8, "  \"relu\",\n") + data));
  }
  // The same data elsewhere are the same kind.
  runs.push_back(write_run(folders, "e", 3, "13", "0.3.0", "aa", net(8, "") + moved));
  const Report report = report_of(runs);
  CHECK(report.names == std::vector<std::string>{"source", "name"});
  std::vector<std::string> labels;
  for (const ReportGroup& group : report.groups) labels.push_back(group.label);
  CHECK(labels == std::vector<std::string>{"source=my.csv,name=net", "source=my.csv (2),name=net",
                                           "source=my.csv,name=net (2)", "source=my.csv,name=net (3)"});
  CHECK(report.groups[0].counted.size() == 3);
  CHECK(set_aside(report).empty());
}

TEST_CASE("a value that is the default in other words, and a name of equal contents, make no other kind") {
  const Folders folders;
  const auto graph = [](const std::string& file) {
    return "topology = \"edges:file=" + file + ";4;0:1,2,3\"\n";
  };
  const Report report = report_of({
      write_run(folders, "a", 1, "ab", "0.3.0", "aa", "[gossip]\n" + graph("g.txt")),
      write_run(folders, "b", 1, "ab", "0.3.0", "aa", "[gossip]\n" + graph("links.txt")),
      write_run(
          folders, "c", 1, "ab", "0.3.0", "aa",
          "[training]\npace = \"20ms\"\ndevice = \"cpu\"\n[gossip]\nevery = \"8 steps\"\n" + graph("g.txt")),
      write_run(folders, "d", 1, "ab", "0.3.0", "aa",
                "[training]\naverage_every = 3\n[gossip]\n" + graph("g.txt")),
      write_run(folders, "e", 1, "ab", "0.3.0", "aa",
                "[gossip]\n" + graph("g.txt") + "[[peer]]\nnumber = 1\ndevice = \"cpu\"\n"),
      write_run(folders, "f", 1, "cd", "0.3.0", "aa", "[gossip]\nevery = \"2 steps\"\n" + graph("g.txt")),
  });
  REQUIRE(report.groups.size() == 2);
  CHECK(report.groups[0].label == "every=8 steps");
  CHECK(report.groups[0].runs == std::vector<std::size_t>{0, 1, 2, 3, 4});
  CHECK(set_aside(report) ==
        std::vector<std::string>{
            "Simulations that repeat a seed of their kind are not counted: 4 (b, c, d and 1 more)"});
}

TEST_CASE("bfloat16 is float32 in a run whose peers had none, and own data differ by their contents") {
  const Folders folders;
  const std::string own = "[[peer]]\nnumber = 1\nown_data = \"my.csv\"\n";
  std::vector<std::string> paths;
  for (const char* const hash : {"aa", "bb", "aa"}) {
    const std::string name = "run-" + std::to_string(paths.size());
    const std::string precision = paths.size() == 2 ? "bf16" : "f32";
    paths.push_back(write_run(folders, name, paths.size(), name, "0.3.0", "dd",
                              "[training]\nprecision = \"" + precision + "\"\n" + own));
    auto summary = training::parse_summary(*training::read_text(paths.back() + "/summary.json", 1 << 20));
    REQUIRE(summary.ok());
    summary->made_from.contents["peer.1.own_data"] = hash;
    summary->per_peer.front().precision = "f32";
    summary->per_peer.push_back(summary->per_peer.front());
    summary->per_peer.back().precision = "";  // as a server's
    folders.write(name, "summary.json", training::to_json(*summary));
  }
  const Report report = report_of(paths);
  REQUIRE(report.groups.size() == 2);
  CHECK(report.groups[0].label == "own_data=my.csv");
  CHECK(report.groups[0].runs == std::vector<std::size_t>{0, 2});
  CHECK(report.groups[1].label == "own_data=my.csv (2)");
}

TEST_CASE("runs that are not counted are told, with those that contradict another one") {
  const Folders folders;
  const Report report = report_of({write_run(folders, "first", 1, "ab", "0.3.0", "aa", ""),
                                   write_run(folders, "again", 1, "ab", "0.3.0", "aa", ""),
                                   write_run(folders, "other", 1, "cd", "0.2.0", "aa", "")});
  REQUIRE(report.groups.size() == 1);
  CHECK(report.groups[0].counted.size() == 1);
  const std::vector<std::string> told = set_aside(report);
  REQUIRE(told.size() == 3);
  CHECK(told[0] == "Simulations that repeat a seed of their kind are not counted: 1 (again)");
  CHECK(contains(told[1], "but another trace, are not counted: 1 (other)"));
  CHECK(told[2] == "The runs were made by starling 0.2.0 on avx2 and starling 0.3.0 on avx2");
  CHECK(contains(to_html(report), "are not counted: 1 (other)"));
}

}  // namespace starling::lab
