#include "lab/report/report.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lab/report/statistics.h"
#include "lab/simulate/simulate.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/lab/report_folders.h"
#include "training/runs/records/json.h"
#include "training/runs/records/record.h"

namespace starling::lab {
namespace {

bool near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance; }

std::string refusal_of(const std::vector<std::string>& folders) {
  const auto report = read_report(folders);
  REQUIRE_FALSE(report.ok());
  return report.error().message;
}

}  // namespace

TEST_CASE("runs that differ only in their seed share a line of the table") {
  const Folders folders;
  std::vector<std::string> paths;
  for (const auto& [seed, seconds] : {std::pair{1, 8.0}, {2, 8.0}, {3, 2.0}})
    paths.push_back(
        folders.summary("ring-" + std::to_string(seed), static_cast<std::uint64_t>(seed), seconds));
  for (const auto& [seed, seconds] : {std::pair{1, 2.0}, {2, 4.0}, {3, 1.0}})
    paths.push_back(folders.summary("torus-" + std::to_string(seed), static_cast<std::uint64_t>(seed),
                                    seconds, "complete"));
  paths.push_back(folders.summary("line-1", 1, std::nullopt, "line"));
  const auto report = read_report(paths);
  if (!report) FAIL(report.error().message);
  CHECK(report->keys == std::vector<std::string>{"gossip.topology"});
  REQUIRE(report->groups.size() == 3);
  CHECK(report->target == 0.85);
  CHECK_FALSE(report->target_from_curves);
  const ReportGroup &ring = report->groups[0], &complete = report->groups[1], &line = report->groups[2];
  CHECK(ring.label == "topology=ring");
  CHECK(ring.runs == std::vector<std::size_t>{0, 1, 2});
  CHECK(ring.reached == 3);
  CHECK(ring.seconds_to_target->median == 8);
  CHECK(near(ring.seconds_to_target->mean, std::cbrt(128.0), 1e-12));
  CHECK_FALSE(ring.speedup.has_value());  // the reference
  CHECK(near(complete.speedup->factor, std::cbrt(16.0), 1e-9));
  CHECK(complete.speedup->interval.has_value());
  CHECK(line.reached == 0);
  CHECK_FALSE(line.speedup.has_value());
  CHECK(report->runs[4].label == "topology=complete,seed=2");
  CHECK(report->runs[0].staleness ==
        std::vector<std::pair<std::string, double>>{{"0", 2}, {"1", 1}, {"2", 0}, {"3-4", 1}});

  const std::string csv = to_csv(*report);
  CHECK(contains(csv, "topology,runs,target_accuracy,reached,seconds_to_target_median,"));
  CHECK(contains(csv, "\nring,3,0.85,3,8,2,8,5.04,"));
  CHECK(contains(csv, "\nline,1,0.85,0,,,,,,,,,,0.9,,,20,4000,,,,\n"));
}

TEST_CASE("without a target in the runs, times to target are interpolated on the curves") {
  const Folders folders;
  const std::string metrics =
      R"({"seconds":1,"peer":"p0","steps":5,"samples":50,"exchanges":4,"bytes_sent":100,"loss":2.0,"accuracy":null})"
      "\n"
      R"({"seconds":1,"peer":"p1","steps":5,"samples":50,"exchanges":4,"bytes_sent":150,"loss":1.0,"accuracy":null})"
      "\n"
      R"({"seconds":1,"peer":"mean","steps":10,"samples":100,"exchanges":4,"bytes_sent":250,"loss":1.9,"accuracy":0.5,"consensus_distance":0.2})"
      "\n"
      R"({"seconds":3,"peer":"mean","steps":20,"samples":200,"exchanges":8,"bytes_sent":500,"loss":0.9,"accuracy":0.7,"consensus_distance":0.1})"
      "\n"
      R"({"seconds":5,"peer":"mean","steps":30,"samples":300,"exchanges":8,"bytes_sent":700,"loss":0.8,"accuracy":0.9,"consensus_distance":0.1})"
      "\n{\"seconds\":6,\"pee";  // killed while it wrote this line
  const std::string run = folders.summary("one", 1, std::nullopt);
  folders.write("one", "metrics.jsonl", metrics);
  const auto report = read_report({run}, {.target = 0.8});
  if (!report) FAIL(report.error().message);
  CHECK(report->target_from_curves);
  REQUIRE(report->runs[0].seconds_to_target.has_value());
  CHECK(near(*report->runs[0].seconds_to_target, 4, 1e-12));  // half way between 0.7 and 0.9
  const auto& points = report->runs[0].points;
  REQUIRE(points.size() == 4);
  CHECK(points[0].bytes == 250);
  CHECK(points[0].training_loss == 1.5);
  CHECK(points[0].exchanges == 4);
  CHECK(points[3].is_end);
  CHECK(points[3].seconds == 20);
  CHECK(read_report({run}, {.target = 0.95})->groups[0].reached == 0);
}

TEST_CASE("times count from when peers train, or from their start") {
  const Folders folders;
  const auto look = [](double seconds, double accuracy) {
    return R"({"seconds":)" + std::to_string(seconds) + R"(,"peer":"mean","accuracy":)" +
           std::to_string(accuracy) + "}\n";
  };
  // A simulation's series counts from the start, a swarm's from the first step.
  folders.summary("simulated", 1, 8, "ring", "simulate", 3);
  const std::string simulated = folders.write("simulated", "metrics.jsonl", look(7, 0.8) + look(11, 0.9));
  folders.summary("real", 2, 8, "ring", "swarm", 5);
  const std::string real = folders.write("real", "metrics.jsonl", look(4, 0.8) + look(8, 0.9));
  for (const bool from_start : {false, true}) {
    CAPTURE(from_start);
    ReportOptions options;
    options.from_start = from_start;
    const auto report = read_report({simulated, real}, options);
    REQUIRE(report.ok());
    for (const ReportRun& run : report->runs) {
      CAPTURE(run.mode);
      const double start = !from_start ? 0 : run.mode == "simulate" ? 3 : 5;
      REQUIRE(run.looks.size() == 3);
      CHECK(run.looks[0].seconds == 4 + start);
      CHECK(run.looks[1].seconds == 8 + start);
      CHECK(run.seconds == 20 + start);
      REQUIRE(run.seconds_to_target);
      CHECK(std::abs(*run.seconds_to_target - (6 + start)) < 1e-9);  // half way between the evaluations
    }
    CHECK(contains(runs_text(*report, {0}), from_start ? "from the start of the peers." : "time."));
  }
}

TEST_CASE("a predicted consensus distance has the topology's shape and the measured size") {
  const Folders folders;
  const std::string run = folders.summary("one", 1, std::nullopt, "complete");
  // With 4 peers on a complete graph an exchange leaves 2/3 of V. Each second has one step and one exchange
  // per peer.
  std::string metrics;
  double v = 0;
  for (int second = 1; second <= 20; ++second) {
    const double a = -std::log(2.0 / 3);
    v = v * std::exp(-a) + 4 * 7e-4 * (1 - std::exp(-a)) / a;
    const std::string n = std::to_string(second), steps = std::to_string(second);
    for (const char* peer : {"p0", "p1", "p2", "p3"})
      metrics += R"({"seconds":)" + n + R"(,"peer":")" + peer + R"(","steps":)" + steps +
                 R"(,"samples":1,"exchanges":)" + std::to_string(0.5 * second) + "}\n";
    metrics += R"({"seconds":)" + n + R"(,"peer":"mean","consensus_distance":)" +
               std::to_string(std::sqrt(v)) + "}\n";
  }
  folders.write("one", "metrics.jsonl", metrics);
  const auto report = read_report({run});
  if (!report) FAIL(report.error().message);
  CHECK(contains(report->runs[0].prediction, "0.6667"));
  CHECK(contains(report->runs[0].graph, "<svg"));
  std::size_t predicted = 0;
  for (const ReportPoint& point : report->runs[0].points) {
    if (!point.predicted) continue;
    ++predicted;
    CHECK(near(*point.predicted / *point.consensus, 1, 1e-3));
  }
  CHECK(predicted == 20);
}

TEST_CASE("the rows of a time line show a straggler, waiting and stopped peers") {
  const Folders folders;
  const std::string run = folders.summary("one", 1, std::nullopt);
  std::string lines;
  const auto cell = [&](const char* peer, int from, double computing, double waiting, double stopped,
                        int steps) {
    lines += R"({"peer":")" + std::string(peer) + R"(","from":)" + std::to_string(from) + R"(,"to":)" +
             std::to_string(from + 1) + R"(,"computing":)" + std::to_string(computing) +
             R"(,"exchanging":0,"waiting":)" + std::to_string(waiting) + R"(,"stopped":)" +
             std::to_string(stopped) + R"(,"steps":)" + std::to_string(steps) + "}\n";
  };
  for (int at = 0; at < 20; ++at) cell("quick", at, 1, 0, 0, 10);
  for (int at = 0; at < 20; ++at) cell("slow", at, 1, 0, 0, at % 2);
  for (int at = 0; at < 20; ++at) cell("waits", at, 0.25, 0.75, 0, at % 2 == 0 ? 2 : 3);
  for (int at = 0; at < 20; ++at) at < 10 ? cell("stops", at, 1, 0, 0, 10) : cell("stops", at, 0, 0, 1, 0);
  folders.write("one", "timeline.jsonl", lines);
  const auto report = read_report({run});
  if (!report) FAIL(report.error().message);
  const auto& rows = report->runs[0].rows;
  REQUIRE(rows.size() == 4);
  CHECK(report->runs[0].rows_to == 20);
  CHECK(near(rows[1].slowness, 20, 0.01));
  CHECK(near(rows[0].slowness, 1, 0.01));
  CHECK(near(rows[2].slowness, 1, 0.01));  // it computes rarely, but at full speed
  CHECK(near(rows[2].parts[2], 0.75, 1e-3));
  CHECK(near(rows[3].parts[3], 0.5, 1e-3));
  for (const auto& column : rows[1].columns) REQUIRE(column.slowness > 12);
  CHECK(rows[3].columns.back().stopped == 1);
  CHECK(rows[3].columns.front().stopped == 0);
}

TEST_CASE("runs can differ in the settings of a [[peer]], and a [[fault]] beside it keeps its number") {
  const Folders folders;
  std::vector<std::string> paths;
  for (const std::string workers : {"1", "4"}) {
    paths.push_back(folders.summary("workers-" + workers, 1, 8.0));
    folders.write("workers-" + workers, "experiment.toml",
                  "name = \"made-up\"\nseed = 1\n\n[[peer]]\nnumber = 0\npace = \"20ms\"\n\n[[peer]]\nnumber "
                  "= 1\nworkers = " +
                      workers + "\n\n[[fault]]\npeer = 0\nslow = " + workers + "\n");
  }
  const auto report = read_report(paths);
  if (!report) FAIL(report.error().message);
  CHECK(report->keys == std::vector<std::string>{"fault.1.slow", "peer.2.workers"});
  CHECK(report->groups.at(1).label == "slow=4,workers=4");
}

TEST_CASE("speed-ups are relative to the named kind of run, by label or by unique value") {
  const Folders folders;
  const std::vector<std::string> paths = {folders.summary("ring", 1, 8.0),
                                          folders.summary("complete", 1, 2.0, "complete"),
                                          folders.summary("star", 1, 4.0, "star")};
  const auto against = [&](const std::string& name) {
    ReportOptions options;
    options.against = name;
    return read_report(paths, options);
  };
  for (const char* name : {"topology=complete", "complete"}) {
    const auto report = against(name);
    REQUIRE(report.ok());
    CHECK(report->reference == 1);
    CHECK(near(report->groups[0].speedup->factor, 0.25, 1e-9));
    CHECK_FALSE(report->groups[1].speedup.has_value());
    CHECK(near(report->groups[2].speedup->factor, 0.5, 1e-9));
    CHECK(
        contains(to_html(*report), "Speed-ups are relative to topology=complete: ratios of geometric means"));
  }
  CHECK(contains(to_html(*read_report(paths)),
                 "Speed-ups are relative to the first row: ratios of geometric means"));
  const auto refused = against("torus");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message ==
        "no kind of run is called 'torus', to compare against; there are: topology=ring; topology=complete; "
        "topology=star");
  CHECK_FALSE(against("").ok());
}

TEST_CASE("a folder without results, or with damaged ones, is an error that names the file") {
  const Folders folders;
  CHECK(refusal_of({folders.path + "/nowhere"}) == "the folder " + folders.path + "/nowhere does not exist");
  CHECK(refusal_of({folders.path}) ==
        folders.path + " contains no results: neither a summary.json nor runs of a sweep");
  const std::string run = folders.write("one", "summary.json", "{\"name\":\"x\"");
  CHECK(refusal_of({run + "/"}) ==
        run + "/summary.json is damaged: it is not one JSON object; run it again, or leave this folder out");
  CHECK(refusal_of({run + "/summary.json"}) == run + "/summary.json is a file, not the folder of a run");
  folders.write("one", "summary.json", "{\"name\":3}");
  CHECK(contains(refusal_of({folders.path}), run + "/summary.json is damaged: its \"name\" is not a text"));
  const std::string whole = folders.summary("two", 1, std::nullopt);
  for (const char* file : {"metrics.jsonl", "timeline.jsonl"}) {
    folders.write("two", file, "{\"seconds\":1}\n");
    CHECK(contains(refusal_of({whole}), whole + "/" + file + " is damaged: line 1 "));
    std::filesystem::remove(whole + "/" + file);
  }
  CHECK(read_report({whole}).ok());
}

TEST_CASE("a page contains its data, whatever characters the names have") {
  const Folders folders;
  const std::string run = folders.summary("one", 1, std::nullopt, "x</script><b>&\"");
  const auto report = read_report({run});
  REQUIRE(report.ok());
  const std::string html = to_html(*report);
  CHECK_FALSE(contains(html, "x</script>"));
  CHECK(contains(html, "x&lt;/script&gt;"));
  CHECK(contains(html, "x\\u003c/script>"));
  for (const char* place : {"@TITLE@", "@DATA@", "@SCRIPT@", "@STYLE@", "http://", "https://"}) {
    CAPTURE(place);
    const bool named =
        std::string(place).starts_with("http") &&
        contains(html, "http://www.w3.org/2000/svg");  // the namespace of SVG, which is not fetched
    CHECK((!contains(html, place) || named));
  }
}

// Peer 1 is slow, peer 2 pauses and peer 3 crashes.
training::Experiment experiment_with_faults() {
  training::Experiment experiment;
  experiment.model.name = "softmax";
  experiment.data.source = "glyphs";
  experiment.peers = 4;
  experiment.training.pace = std::chrono::milliseconds(20);
  experiment.end.seconds = std::chrono::seconds(4);
  experiment.gossip.every = Pace{.steps = 2};
  experiment.network.latency =
      std::chrono::milliseconds(30);  // longer than a step, so replies are mixed some steps later
  experiment.faults = {{.peer = 1, .factor = 5},
                       {.peer = 2,
                        .kind = training::Fault::Kind::pause,
                        .from = std::chrono::seconds(1),
                        .to = std::chrono::seconds(2)},
                       {.peer = 3, .kind = training::Fault::Kind::crash, .from = std::chrono::seconds(3)}};
  return experiment;
}

// Compares the states in this time line with those faults.
void check_timeline_of_faults(const std::string& path) {
  struct Sums {
    double computing = 0, waiting = 0, stopped = 0, steps = 0;
  };
  std::map<std::string, Sums> sums;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    const training::Json line = training::Json::parse(text);
    const double from = line["from"], to = std::min(4.0, line["to"].get<double>());
    if (from >= to) continue;
    Sums& sum = sums[line["peer"]];
    sum.computing += line["computing"].get<double>() * (to - from);
    sum.waiting += line["waiting"].get<double>() * (to - from);
    sum.stopped += line["stopped"].get<double>() * (to - from);
    sum.steps += line["steps"].get<double>();
  }
  CHECK(near(sums["p2"].stopped, 1, 0.05));
  CHECK(near(sums["p3"].stopped, 1, 0.05));
  CHECK(near(sums["p0"].stopped, 0, 0.05));
  CHECK(sums["p0"].computing > 3.5);
  CHECK(sums["p1"].computing > 3.3);
  CHECK(sums["p0"].steps > 4 * sums["p1"].steps);
}

TEST_CASE("a simulated run's time line and staleness are those of its faults") {
  const Folders folders;
  const auto folder = training::RunFolder::create(folders.path + "/run", false);
  REQUIRE(folder.ok());
  SimulateOptions options;
  options.threads = 2;
  const auto summary = simulate(experiment_with_faults(), options, *folder);
  if (!summary) FAIL(summary.error().message);

  std::uint64_t counted = 0, late = 0;
  for (std::size_t i = 0; i < training::Staleness::kBuckets; ++i) {
    counted += summary->staleness.counts()[i];
    if (i >= 2) late += summary->staleness.counts()[i];
  }
  // The exchanges of a crashed peer count.
  CHECK(counted >= summary->exchanges.completed);
  CHECK(counted <= summary->exchanges.completed + 100);
  CHECK(late * 2 > counted);  // a round trip is three steps of all but one
  check_timeline_of_faults(folder->file("timeline.jsonl"));

  const auto report = read_report({folder->path()});
  if (!report) FAIL(report.error().message);
  REQUIRE(report->runs[0].rows.size() == 4);
  CHECK(near(report->runs[0].rows[1].slowness, 5, 0.5));
  CHECK(near(report->runs[0].rows[0].slowness, 1, 0.1));
  std::size_t looks = 0;
  for (const ReportPoint& point : report->runs[0].points) {
    CHECK(point.bytes.has_value());
    looks += point.accuracy && point.loss && point.consensus ? 1 : 0;
  }
  CHECK(looks >= 3);
}

TEST_CASE("in lock-step, the time lines of all peers but the straggler show waiting") {
  const Folders folders;
  training::Experiment experiment;
  experiment.model.name = "softmax";
  experiment.data.source = "glyphs";
  experiment.gossip.rule = Rule::all_reduce;
  experiment.peers = 3;
  experiment.training.pace = std::chrono::milliseconds(20);
  experiment.end.steps = 40;
  experiment.faults = {{.peer = 1, .factor = 4}};
  const auto folder = training::RunFolder::create(folders.path + "/run", false);
  REQUIRE(folder.ok());
  const auto summary = simulate(experiment, SimulateOptions(), *folder);
  if (!summary) FAIL(summary.error().message);
  CHECK(summary->staleness.counts()[0] == 40);
  const auto report = read_report({folder->path()});
  if (!report) FAIL(report.error().message);
  const auto& rows = report->runs[0].rows;
  REQUIRE(rows.size() == 3);
  // A step of the straggler takes 80 ms, a step of the others 20 ms. The all-reduce itself takes little time.
  for (const std::size_t quick : {0, 2}) {
    CHECK(near(rows[quick].parts[0], 0.25, 0.03));
    CHECK(near(rows[quick].parts[2], 0.75, 0.03));
    CHECK(near(rows[quick].slowness, 1, 0.1));
  }
  CHECK(rows[1].parts[0] > 0.95);
  CHECK(rows[1].parts[2] < 0.01);
  CHECK(near(rows[1].slowness, 4, 0.3));
}

}  // namespace starling::lab
