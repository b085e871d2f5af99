// Gantt charts of pipelines: their rows, boxes and steps, and the documents.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "lab/plot/draw.h"
#include "lab/plot/gantt.h"
#include "tests/catch.h"
#include "tests/contains.h"

namespace starling::lab {
namespace {

using training::PipelineSchedule;
using training::PipelineShape;
using training::PipelineTrace;
using training::StageTimes;
using Kind = training::StageTask::Kind;

PipelineTrace trace_of(const PipelineShape& shape, const StageTimes& times = {.forward = 1, .backward = 2}) {
  return training::time_pipeline(shape,
                                 {.stages = std::vector<StageTimes>(shape.stages(), times), .links = {}});
}

PipelineShape four_stages(PipelineSchedule schedule) {
  return {.replicas = {1, 1, 1, 1}, .schedule = schedule, .micro_batches = 8, .batches = 1};
}

double covered(const GanttRow& row) {
  double seconds = 0;
  for (const GanttBox& box : row.boxes) seconds += box.end - box.begin;
  return seconds;
}

std::size_t times_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a chart has a row for each replica, and boxes that cover what is not idle") {
  const PipelineTrace trace = trace_of(four_stages(PipelineSchedule::one_f_one_b));
  const GanttChart chart = make_gantt(trace, "four", trace.bubble());
  CHECK(chart.title == "four: bubble 27.3 %");
  CHECK(chart.end == 33);
  REQUIRE(chart.rows.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const GanttRow& row = chart.rows[i];
    CHECK(row.label == "stage " + std::to_string(i + 1));
    CHECK(row.boxes.size() == 16);  // updates take no time
    CHECK(covered(row) == 24);
    CHECK(std::ranges::count(row.boxes, Kind::backward, &GanttBox::kind) == 8);
    for (std::size_t k = 1; k < row.boxes.size(); ++k) CHECK(row.boxes[k].begin >= row.boxes[k - 1].end);
  }
  CHECK_FALSE(chart.updates);
  CHECK(chart.rows[3].boxes[0].begin == 3);
  CHECK(contains(chart.text, "stage 1: idle 27 %, keeps at most 4 micro-batches and 1 version"));
}

TEST_CASE("the steps below a row are what its replica keeps") {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::pipedream}) {
    CAPTURE(training::pipeline_traits(schedule).name);
    PipelineShape shape = four_stages(schedule);
    if (schedule == PipelineSchedule::pipedream) {
      shape.micro_batches = 1;
      shape.batches = 12;
    }
    const PipelineTrace trace = trace_of(shape);
    const GanttChart chart = make_gantt(trace, "four", trace.bubble());
    for (std::size_t i = 0; i < 4; ++i) {
      const auto& steps = chart.rows[i].steps;
      CHECK(steps.front().seconds == 0);
      std::size_t kept = 0, versions = 0;
      for (std::size_t k = 0; k < steps.size(); ++k) {
        if (k > 0) CHECK(steps[k].seconds > steps[k - 1].seconds);
        kept = std::max(kept, steps[k].kept);
        versions = std::max(versions, steps[k].versions);
      }
      CHECK(kept == trace.replicas[i].most_in_flight);
      CHECK(versions == trace.replicas[i].most_versions);
    }
    CHECK(chart.most_kept == (schedule == PipelineSchedule::gpipe ? 8 : 4));
    CHECK((chart.most_versions > 1) == (schedule == PipelineSchedule::pipedream));
  }
}

TEST_CASE("replicas have rows of their own, updates are boxes, and long traces are cut") {
  PipelineShape shape{
      .replicas = {2, 1}, .schedule = PipelineSchedule::one_f_one_b, .micro_batches = 8, .batches = 1};
  const StageTimes times{.forward = 1, .backward = 2, .update = 3};
  const GanttChart chart = make_gantt(trace_of(shape, times), "two", 0);
  REQUIRE(chart.rows.size() == 3);
  CHECK(chart.rows[0].label == "stage 1.1");
  CHECK(chart.rows[1].label == "stage 1.2");
  CHECK(chart.rows[2].label == "stage 2");
  CHECK(chart.updates);
  CHECK(chart.rows[2].boxes.back().kind == Kind::update);
  CHECK(chart.rows[1].boxes.front().number == 1);

  shape.batches = 100;
  const PipelineTrace longer = trace_of(shape, times);
  const GanttChart cut = make_gantt(longer, "two", 0);
  CHECK(cut.end < longer.seconds);
  for (const GanttRow& row : cut.rows)
    for (const GanttBox& box : row.boxes) CHECK(box.begin < cut.end);

  shape = {.replicas = {40, 1}, .schedule = PipelineSchedule::one_f_one_b, .micro_batches = 40, .batches = 1};
  const GanttChart many = make_gantt(trace_of(shape), "many", 0);
  CHECK(many.rows.size() == kMostGanttRows);
  CHECK(many.left_out == 41 - kMostGanttRows);
}

TEST_CASE("a chart is drawn in every format; an SVG has a title and a description") {
  const PipelineTrace trace = trace_of(four_stages(PipelineSchedule::one_f_one_b));
  const GanttChart chart = make_gantt(trace, "<four> & \"more\"", trace.bubble());
  const auto svg = draw_gantt(chart, {.width = 7, .format = PaperFormat::svg});
  REQUIRE(svg.ok());
  CHECK(contains(*svg, "role=\"img\" aria-label=\"&lt;four> &amp; &quot;more&quot;: bubble 27.3 %\""));
  CHECK(times_in(*svg, "<title>&lt;four>") == 1);
  CHECK(times_in(*svg, "<desc>") == 1);
  // A box for each pass: the colors of the passes, once more in the legend.
  const std::string forward = "rgb(53.3", backward = "rgb(20%";
  CHECK(times_in(*svg, forward) >= 32);
  CHECK(times_in(*svg, backward) >= 32);
  const auto pdf = draw_gantt(chart, {.width = 7});
  REQUIRE(pdf.ok());
  CHECK(pdf->starts_with("%PDF-"));
  const auto png = draw_gantt(chart, {.width = 7, .format = PaperFormat::png, .dpi = 100});
  REQUIRE(png.ok());
  CHECK(png->substr(1, 3) == "PNG");
  CHECK(static_cast<unsigned char>((*png)[18]) * 256 + static_cast<unsigned char>((*png)[19]) == 700);
  CHECK(contains(draw_gantt(chart, {.width = 1}).error().message, "too narrow"));
  CHECK(contains(draw_gantt({}, {.width = 7}).error().message, "takes no time"));
}

}  // namespace starling::lab
