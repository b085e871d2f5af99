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
#include "training/records/json.h"
#include "training/records/record.h"

namespace starling::lab {
namespace {

using training::Json;

bool near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance; }

// Folders of invented runs.
struct Folders {
  std::string path;
  Folders() {
    std::string pattern = (std::filesystem::temp_directory_path() / "starling-report-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~Folders() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folders(const Folders&) = delete;
  Folders& operator=(const Folders&) = delete;

  std::string write(const std::string& run, const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(path + "/" + run);
    std::ofstream(path + "/" + run + "/" + file) << text;
    return path + "/" + run;
  }
  std::string summary(const std::string& run, std::uint64_t seed, std::optional<double> to_target,
                      const std::string& topology = "ring") const {
    training::Summary summary;
    summary.name = "made-up";
    summary.mode = "simulate";
    summary.seed = seed;
    summary.model = "softmax";
    summary.data = "glyphs";
    summary.peers = 4;
    summary.topology = topology;
    summary.rule = "pairwise";
    summary.payload = "f32";
    summary.seconds = 20;
    summary.samples = 1000;
    summary.accuracy = 0.9;
    summary.bytes_sent = 4000;
    summary.seconds_to_target = to_target;
    for (const std::uint64_t steps : {0, 0, 1, 4}) summary.staleness.count(steps);
    training::PeerRecord peer;
    peer.name = "p0";
    peer.steps = 10;
    peer.state = "finished";
    summary.per_peer = {peer};
    write(run, "experiment.toml",
          "name = \"made-up\"\nseed = " + std::to_string(seed) +
              "\n\n[training]\ntarget_accuracy = 0.85\n\n[gossip]\ntopology = \"" + topology + "\"\n");
    return write(run, "summary.json", training::to_json(summary) + "\n");
  }
};

std::string refusal_of(const std::vector<std::string>& folders) {
  const auto report = read_report(folders);
  REQUIRE_FALSE(report.ok());
  return report.error().message;
}

}  // namespace

// Quantiles from tables, such as NIST's handbook of statistics, section 1.3.6.7.2.
TEST_CASE("Student's t has the quantiles of the tables") {
  CHECK(near(student_t_quantile(0.975, 1), 12.706, 5e-4));
  CHECK(near(student_t_quantile(0.975, 2), 4.303, 5e-4));
  CHECK(near(student_t_quantile(0.975, 4), 2.776, 5e-4));
  CHECK(near(student_t_quantile(0.95, 10), 1.812, 5e-4));
  CHECK(near(student_t_quantile(0.975, 30), 2.042, 5e-4));
  CHECK(near(student_t_quantile(0.975, 1e6), 1.95996, 1e-4));
  CHECK(near(student_t_quantile(0.025, 4), -2.776, 5e-4));
  // In closed form: tan(pi (p - 1/2)) with one degree, and with two.
  for (const double p : {0.6, 0.9, 0.999}) {
    CHECK(near(student_t_quantile(p, 1) / std::tan(M_PI * (p - 0.5)), 1, 1e-9));
    CHECK(near(student_t_quantile(p, 2) / ((2 * p - 1) * std::sqrt(1 / (2 * p * (1 - p)))), 1, 1e-9));
  }
}

TEST_CASE("the spread of some values is their median, range, mean and its confidence interval") {
  // By hand: mean 10.25, deviation sqrt(1.4225 / 3) = 0.68860, over sqrt(4), times 3.18245.
  const std::vector<double> values = {10.9, 9.3, 10.2, 10.6};
  const auto spread = spread_of(values);
  REQUIRE(spread.has_value());
  CHECK(near(spread->median, 10.4, 1e-12));
  CHECK(spread->least == 9.3);
  CHECK(spread->most == 10.9);
  CHECK(near(spread->mean, 10.25, 1e-12));
  REQUIRE(spread->interval.has_value());
  double squares = 0;
  for (const double value : values) squares += (value - 10.25) * (value - 10.25);
  const double half = 3.182446 * std::sqrt(squares / 3 / 4);
  CHECK(near(spread->interval->low, 10.25 - half, 1e-5));
  CHECK(near(spread->interval->high, 10.25 + half, 1e-5));

  const std::vector<double> one = {3};
  CHECK_FALSE(spread_of(one)->interval.has_value());
  CHECK_FALSE(spread_of(std::vector<double>()).has_value());
}

TEST_CASE("a speed-up is the ratio of geometric means, with Welch's interval on the logarithms") {
  const std::vector<double> slow = {8, 8, 2}, fast = {2, 4, 1};
  const auto result = speedup(slow, fast);
  REQUIRE(result.has_value());
  CHECK(near(result->factor, std::cbrt(128.0) / std::cbrt(8.0), 1e-12));
  // In units of log 2 the logarithms are 3 3 1 and 1 2 0: means 7/3 and 1, variances of the means 4/9 and
  // 1/3.
  const double variance = 4.0 / 9 + 1.0 / 3;
  const double degrees = variance * variance / (16.0 / 81 / 2 + 1.0 / 9 / 2);
  const double half = student_t_quantile(0.975, degrees) * std::sqrt(variance);
  REQUIRE(result->interval.has_value());
  CHECK(near(std::log2(result->interval->low), 4.0 / 3 - half, 1e-9));
  CHECK(near(std::log2(result->interval->high), 4.0 / 3 + half, 1e-9));

  const std::vector<double> one = {4}, zero = {0}, none = {};
  CHECK(speedup(one, one)->factor == 1);
  CHECK_FALSE(speedup(one, fast)->interval.has_value());
  CHECK_FALSE(speedup(one, zero).has_value());
  CHECK_FALSE(speedup(none, one).has_value());
}

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
  CHECK(near(ring.seconds_to_target->mean, 6, 1e-12));
  CHECK(ring.speedup->factor == 1);
  CHECK(near(complete.speedup->factor, std::cbrt(16.0), 1e-9));
  CHECK(complete.speedup->interval.has_value());
  CHECK(line.reached == 0);
  CHECK_FALSE(line.speedup.has_value());
  CHECK(report->runs[4].label == "topology=complete, seed 2");
  CHECK(report->runs[0].staleness ==
        std::vector<std::pair<std::string, double>>{{"0", 2}, {"1", 1}, {"2", 0}, {"3-4", 1}});

  const std::string csv = to_csv(*report);
  CHECK(contains(csv, "gossip.topology,runs,target_accuracy,reached,seconds_to_target_median,"));
  CHECK(contains(csv, "\nring,3,0.85,3,8,2,8,6,"));
  CHECK(contains(csv, "\nline,1,0.85,0,,,,,,,,,,0.9,,,20,4000\n"));
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
  CHECK(report->groups.at(1).label == "slow=4, workers=4");
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
    CHECK(near(report->groups[1].speedup->factor, 1, 1e-9));
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
    const Json line = Json::parse(text);
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
