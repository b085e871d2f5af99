// Figures of invented runs: their curves, kinds, scales and statistics, and what is refused.
#include <cmath>
#include <string>
#include <vector>

#include "lab/plot/draw.h"
#include "lab/plot/figure.h"
#include "lab/plot/quantities.h"
#include "lab/report/report.h"
#include "lab/report/setting_numbers.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/lab/report_folders.h"
#include "topologies/topology.h"

namespace starling::lab {
namespace {

// Accuracy rises by 0.1 per evaluation from `first`, at every `pace` seconds.
std::string rising_metrics(double pace, double first) {
  std::string lines;
  for (int look = 1; look <= 5; ++look) {
    lines += R"({"seconds":)" + std::to_string(look * pace) + R"(,"peer":"mean","samples":)" +
             std::to_string(look * 20'000) + R"(,"bytes_sent":)" + std::to_string(look * 30'000'000.0) +
             R"(,"loss":)" + std::to_string(1.0 / look) + R"(,"accuracy":)" +
             std::to_string(first + 0.1 * look) + R"(,"consensus_distance":)" +
             std::to_string(std::pow(10, -look)) + "}\n";
  }
  return lines;
}

struct SweepPart {
  std::string slow, rule;
  int seed;
  double seconds_to_target;  // negative: not reached
};

// The folders of a sweep over slowness, rule and seed.
std::vector<std::string> write_sweep(const Folders& folders, const std::vector<SweepPart>& parts) {
  std::vector<std::string> paths;
  for (const SweepPart& part : parts) {
    const std::string name = "run-" + std::to_string(paths.size());
    const auto target = part.seconds_to_target < 0 ? std::nullopt : std::optional(part.seconds_to_target);
    paths.push_back(folders.summary(name, static_cast<std::uint64_t>(part.seed), target));
    folders.write(name, "experiment.toml",
                  "name = \"made-up\"\nseed = " + std::to_string(part.seed) +
                      "\n\n[training]\ntarget_accuracy = 0.95\n\n[gossip]\nrule = \"" + part.rule +
                      "\"\n\n[[fault]]\npeer = 1\nslow = " + part.slow + "\n");
    const double pace = std::stod(part.slow) * (part.rule == "d-psgd" ? 2 : 1);
    folders.write(name, "metrics.jsonl", rising_metrics(pace, 0.1 + 0.01 * part.seed));
  }
  return paths;
}

std::vector<SweepPart> usual_sweep() {
  std::vector<SweepPart> parts;
  for (const char* rule : {"pairwise", "d-psgd"})
    for (const char* slow : {"1", "10", "100"})
      for (const int seed : {1, 2, 3})
        parts.push_back({slow, rule, seed, std::stod(slow) * (seed == 2 ? 4 : seed == 3 ? 2 : 1)});
  return parts;
}

Report report_of_sweep(const Folders& folders, const std::vector<SweepPart>& parts) {
  auto report = read_report(write_sweep(folders, parts));
  if (!report) FAIL(report.error().message);
  return std::move(*report);
}

PaperFigure figure_of(const Report& report, const FigureRequest& request) {
  auto figure = make_figure(report, request);
  if (!figure) FAIL(figure.error().message);
  return std::move(*figure);
}

std::string refusal_of_figure(const Report& report, const FigureRequest& request) {
  const auto figure = make_figure(report, request);
  REQUIRE_FALSE(figure.ok());
  return figure.error().message;
}

std::vector<std::string> labels_of_lines(const PaperFigure& figure) {
  std::vector<std::string> labels;
  for (const FigureLine& line : figure.lines) labels.push_back(line.label);
  return labels;
}

bool close_to(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(b)); }

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a figure of curves has a line for each kind: the mean over its seeds with a 95 % interval") {
  const Folders folders;
  const Report report = report_of_sweep(folders, usual_sweep());
  const PaperFigure figure = figure_of(report, {.only = {"slow=1"}});
  CHECK(labels_of_lines(figure) == Texts{"pairwise", "d-psgd"});  // they do not differ in slow
  CHECK(figure.x.title == "virtual time (s)");
  CHECK(figure.y.title == "accuracy (%)");
  CHECK_FALSE(figure.x.log);
  CHECK_FALSE(figure.y.log);
  const auto& points = figure.lines[0].points;
  REQUIRE(points.size() == 5);  // without the end, which is evaluated on other images
  for (std::size_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    CHECK(close_to(points[i].x, static_cast<double>(i + 1)));
    CHECK(close_to(points[i].y, 12 + 10 * static_cast<double>(i + 1)));
    // Seeds 1 and 3 are a point below and above: a deviation of 1, and Student's factor 4.3027.
    REQUIRE(points[i].spread.has_value());
    CHECK(std::abs(points[i].spread->high - points[i].y - 4.302652730 / std::sqrt(3)) < 1e-6);
  }
  CHECK(close_to(figure.lines[1].points[4].x, 10));
  CHECK(
      figure.caption.starts_with("accuracy (%) against virtual time (s): means of 3 runs of each kind; bands "
                                 "are 95 % confidence intervals"));
}

TEST_CASE("a caption has the runs, the seeds, what is set aside, and the kind of time") {
  const Folders folders;
  auto parts = usual_sweep();
  parts.push_back(parts.front());  // repeats a seed
  Report report = report_of_sweep(folders, parts);
  const auto ends = [&](const FigureRequest& request, const char* text) {
    const std::string caption = figure_of(report, request).caption;
    INFO(caption);
    return caption.ends_with(text);
  };
  const char* aside =
      " 19 runs with 3 seeds, 1 of them set aside (interrupted, or a seed again), in virtual time.";
  CHECK(ends({}, aside));
  CHECK(ends({.x = "slow"}, aside));
  CHECK(ends({.only = {"slow=10"}}, " 6 runs with 3 seeds, in virtual time."));
  report.runs[report.groups[0].runs[0]].mode = "swarm";
  CHECK(ends({.x = "slow"}, "in virtual and real time."));
  const std::string page = to_html(report);
  CHECK(contains(page, "19 runs with 3 seeds, 1 of them set aside"));
  CHECK(contains(page, "\"amounts\""));
}

TEST_CASE("the band of accuracies ends at 100 %") {
  const Folders folders;
  std::vector<SweepPart> parts;
  for (const int seed : {1, 20, 40}) parts.push_back({"1", "pairwise", seed, 1});
  const PaperFigure figure = figure_of(report_of_sweep(folders, parts), {});
  REQUIRE(figure.lines[0].points.size() == 5);
  CHECK(figure.lines[0].points[4].spread->high == 100);
  CHECK(figure.lines[0].points[0].spread->low >= 0);
}

TEST_CASE("times are virtual if all runs of a figure are simulated") {
  const Folders folders;
  Report report = report_of_sweep(folders, usual_sweep());
  for (const char* y : {"seconds", "seconds_to_target", "samples_per_second"})
    CHECK(contains(figure_of(report, {.x = "slow", .y = y}).caption, "virtual "));
  report.runs[report.groups[0].runs[0]].mode = "swarm";  // slow=1, pairwise
  CHECK(figure_of(report, {}).x.title == "time (s)");
  CHECK(figure_of(report, {.only = {"d-psgd"}}).x.title == "virtual time (s)");
  CHECK(figure_of(report, {.x = "slow"}).y.title == "time to 95 % (s)");
}

TEST_CASE("the consensus distance of a run is that before settling, as in its curve") {
  const Folders folders;
  const Report report = report_of_sweep(folders, usual_sweep());
  const PaperFigure figure = figure_of(report, {.x = "slow", .y = "consensus"});
  for (const FigureLine& line : figure.lines)
    for (const FigurePoint& point : line.points) CHECK(close_to(point.y, 0.4));
}

TEST_CASE("an axis is logarithmic where curves or values span decades, and --log decides otherwise") {
  const Folders folders;
  const Report report = report_of_sweep(folders, usual_sweep());
  CHECK(figure_of(report, {}).x.log);  // curves end after 5 and after 1,000 seconds
  CHECK_FALSE(figure_of(report, {.log = "none"}).x.log);
  CHECK_FALSE(figure_of(report, {.x = "samples"}).x.log);
  CHECK(figure_of(report, {.x = "samples", .y = "consensus"}).y.log);
  CHECK_FALSE(figure_of(report, {.x = "samples", .y = "loss"}).y.log);
  CHECK(figure_of(report, {.x = "samples", .y = "loss", .log = "xy"}).y.log);
  const PaperFigure by_factor = figure_of(report, {.x = "slow"});
  CHECK(by_factor.x.log);
  CHECK(by_factor.y.log);
  CHECK(contains(refusal_of_figure(report, {.x = "seconds", .y = "seconds"}), "has no curve"));
}

TEST_CASE("samples and bytes have the unit that suits them") {
  const Folders folders;
  const Report report = report_of_sweep(folders, usual_sweep());
  const PaperFigure samples = figure_of(report, {.x = "samples"});
  CHECK(samples.x.title == "samples (thousands)");
  CHECK(samples.lines[0].points.back().x == 100);
  const PaperFigure bytes = figure_of(report, {.x = "bytes"});
  CHECK(bytes.x.title == "data sent (MB)");
  CHECK(bytes.lines[0].points.back().x == 150);
  CHECK(figure_of(report, {.x = "bytes", .x_title = "sent", .y_title = ""}).x.title == "sent");
}

TEST_CASE("results by a setting with numbers are on a numeric axis, with the statistics of the report") {
  const Folders folders;
  const Report report = report_of_sweep(folders, usual_sweep());
  for (const char* name : {"slow", "fault.1.slow"}) {
    const PaperFigure figure = figure_of(report, {.x = name});
    CHECK(figure.x.title == "slow-down");
    CHECK(figure.y.title == "virtual time to 95 % (s)");
    CHECK(figure.x.categories.empty());
    CHECK(labels_of_lines(figure) == Texts{"pairwise", "d-psgd"});
    REQUIRE(figure.lines[0].points.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      const FigurePoint& point = figure.lines[0].points[i];
      const double slow = std::pow(10, static_cast<double>(i));
      CHECK(point.x == slow);
      CHECK(close_to(point.y, 2 * slow));  // the geometric mean of 1, 2 and 4
      const ReportGroup& group = report.groups[i];
      REQUIRE(group.seconds_to_target->interval.has_value());
      CHECK(point.spread->low == group.seconds_to_target->interval->low);
      CHECK(point.spread->high == group.seconds_to_target->interval->high);
    }
  }
  CHECK(figure_of(report, {.y = "seconds_to_target"}).x.title == "slow-down");  // the setting with numbers
  CHECK(figure_of(report, {.x = "rule"}).x.categories == Texts{"pairwise", "d-psgd"});
  CHECK(labels_of_lines(figure_of(report, {.x = "rule"})) == Texts{"slow=1", "slow=10", "slow=100"});
}

TEST_CASE("a kind that misses the target is hollow, or is left out and named") {
  const Folders folders;
  const Report report = report_of_sweep(folders, {{"1", "pairwise", 1, 2},
                                                  {"1", "pairwise", 2, -1},
                                                  {"2", "pairwise", 1, 3},
                                                  {"2", "pairwise", 2, 12},
                                                  {"4", "pairwise", 1, -1},
                                                  {"4", "pairwise", 2, -1}});
  const PaperFigure figure = figure_of(report, {.x = "slow"});
  REQUIRE(figure.lines.size() == 1);
  REQUIRE(figure.lines[0].points.size() == 2);
  CHECK(figure.lines[0].points[0].partial);
  CHECK_FALSE(figure.lines[0].points[0].spread.has_value());
  CHECK_FALSE(figure.lines[0].points[1].partial);
  CHECK(close_to(figure.lines[0].points[1].y, 6));
  CHECK(figure.lines[0].points[1].spread->low == 3);  // of two runs: both values
  CHECK(figure.lines[0].points[1].spread->high == 12);
  REQUIRE(figure.remarks.size() == 2);
  CHECK(figure.remarks[0] == "slow=1: 1 of 2 runs have seconds_to_target; the hollow point is their mean");
  CHECK(figure.remarks[1] == "slow=4: no run has seconds_to_target");
}

TEST_CASE("--by pools the runs of other settings, --only chooses kinds, and --label names them") {
  const Folders folders;
  const Report report = report_of_sweep(folders, usual_sweep());
  const PaperFigure pooled = figure_of(report, {.x = "samples", .by = {"rule"}});
  CHECK(labels_of_lines(pooled) == Texts{"pairwise", "d-psgd"});
  CHECK(contains(pooled.caption, "means of 9 runs of each kind"));
  CHECK(labels_of_lines(figure_of(report, {.x = "samples", .only = {"rule=pairwise"}})) ==
        Texts{"slow=1", "slow=10", "slow=100"});
  CHECK(labels_of_lines(
            figure_of(report, {.x = "samples", .only = {"slow=1,rule=pairwise", "slow=10,rule=d-psgd"}}))
            .size() == 2);
  CHECK(labels_of_lines(
            figure_of(report, {.by = {"rule"}, .labels = {"pairwise=Gossip", "rule=d-psgd=A = B"}})) ==
        Texts{"Gossip", "A = B"});
  CHECK(contains(refusal_of_figure(report, {.labels = {"star=Star"}}),
                 "'star=Star' names no kind of the figure"));
  CHECK(contains(refusal_of_figure(report, {.only = {"star"}}), "--only: no kind of run is called 'star'"));
  CHECK(refusal_of_figure(report, {.by = {"topology"}}) ==
        "--by: the runs do not differ in 'topology'; they differ in slow or rule");
  CHECK(contains(refusal_of_figure(report, {.x = "speed"}), "--x: the runs do not differ in 'speed'"));
  CHECK(contains(refusal_of_figure(report, {.y = "speed"}),
                 "--y: 'speed' is unknown; expected accuracy, loss, "));
  CHECK(contains(refusal_of_figure(report, {.y = "training-loss"}), "no run has a curve of training_loss"));
  CHECK(
      contains(refusal_of_figure(report, {.x = "epochs"}), "no run has a curve of accuracy against epochs"));
}

TEST_CASE("more kinds than print keeps apart are refused") {
  const Folders folders;
  std::vector<SweepPart> parts;
  for (int slow = 1; slow <= 11; ++slow) parts.push_back({std::to_string(slow), "pairwise", 1, 1});
  const Report report = report_of_sweep(folders, parts);
  CHECK(contains(refusal_of_figure(report, {}), "would have 11 kinds of runs, and print keeps 10 apart"));
  CHECK(figure_of(report, {.x = "slow"}).lines.size() == 1);
}

TEST_CASE("amounts are in the order of their size, whatever their units") {
  const Texts ordered = {"a=0.5,b",
                         "a=2",
                         "a=16",
                         "a=1e3",
                         "bandwidth=56kbit-s",
                         "bandwidth=100Mbit/s",
                         "bandwidth=1Gbit/s",
                         "every=500us",
                         "every=20ms,x",
                         "every=1.5s",
                         "size=64KiB",
                         "size=1MiB",
                         "topology=ring"};
  for (std::size_t i = 0; i < ordered.size(); ++i)
    for (std::size_t k = 0; k < ordered.size(); ++k) {
      CAPTURE(ordered[i], ordered[k]);
      CHECK(in_natural_order(ordered[i], ordered[k]) == (i < k));
    }
}

TEST_CASE("values of a setting are numbers if they have one unit, or are durations, data rates or sizes") {
  std::string unit;
  using Numbers = std::vector<double>;
  CHECK(numbers_of_setting({"1", "2.5", "1e3"}, unit) == Numbers{1, 2.5, 1000});
  CHECK(unit.empty());
  CHECK(numbers_of_setting({"8 steps", "16 steps"}, unit) == Numbers{8, 16});
  CHECK(unit == "steps");
  CHECK(numbers_of_setting({"20ms", "1.5s"}, unit) == Numbers{0.02, 1.5});
  CHECK(unit == "s");
  CHECK(numbers_of_setting({"20ms", "500us"}, unit) == Numbers{20, 0.5});
  CHECK(unit == "ms");
  CHECK(numbers_of_setting({"10Mbit/s", "56Mbit/s"}, unit) == Numbers{10, 56});
  CHECK(numbers_of_setting({"1Gbit/s", "50Mbit/s", "100Mbit/s"}, unit) == Numbers{1, 0.05, 0.1});
  CHECK(unit == "Gbit/s");
  CHECK(numbers_of_setting({"500kbit/s", "20Mbit/s"}, unit) == Numbers{0.5, 20});
  CHECK(unit == "Mbit/s");
  CHECK(numbers_of_setting({"64KiB", "1MiB", "512KiB"}, unit) == Numbers{0.0625, 1, 0.5});
  CHECK(unit == "MiB");
  CHECK(numbers_of_setting({"0", "20ms", "2m"}, unit) == Numbers{0, 0.02 / 60, 2});
  CHECK(unit == "m");
  for (const Texts& words : {Texts{"ring"}, Texts{"1", "ring"}, Texts{"8 steps", "200ms"}, Texts{""},
                             Texts{"4x2"}, Texts{"1MiB", "1Mbit/s"}, Texts{"1MiB", "5"}})
    CHECK_FALSE(numbers_of_setting(words, unit).has_value());
}

TEST_CASE("figures and topologies are drawn in every format, or the message says what does not fit") {
  const Folders folders;
  const Report report = report_of_sweep(folders, usual_sweep());
  const PaperFigure figure = figure_of(report, {.x = "slow"});
  const auto drawn = [&](const Paper& paper) {
    const auto document = draw_figure(figure, paper);
    return document ? *document : document.error().message;
  };
  CHECK(drawn({.format = PaperFormat::pdf}).starts_with("%PDF-"));
  CHECK(contains(drawn({.format = PaperFormat::svg}), "<svg"));
  const std::string png = drawn({.width = 3.3, .height = 2, .format = PaperFormat::png, .dpi = 100});
  REQUIRE(png.size() > 24);
  CHECK(png.substr(1, 3) == "PNG");
  CHECK(static_cast<unsigned char>(png[18]) * 256 + static_cast<unsigned char>(png[19]) == 330);
  CHECK(static_cast<unsigned char>(png[22]) * 256 + static_cast<unsigned char>(png[23]) == 200);
  CHECK(contains(drawn({.height = 0.5}), "the figure is too small for its text"));
  PaperFigure named = figure;
  named.y.title = std::string(200, 'y');
  CHECK(contains(draw_figure(named, {}).error().message, "the title of an axis is longer than the figure"));
  for (const char* topology :
       {"ring", "star", "one-peer-exponential", "directed-exponential", "random-regular:k=4"}) {
    CAPTURE(topology);
    const auto schedule = topologies::Topology::parse(topology)->among(16);
    const auto document = draw_topology(schedule, topology, {}, false);
    REQUIRE(document.ok());
    CHECK(document->starts_with("%PDF-"));
  }
}

}  // namespace starling::lab
