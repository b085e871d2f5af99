// The figures of measured and predicted consensus.
#include "lab/plot/consensus_sheet.h"

#include <cmath>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/contains.h"

namespace starling::lab {
namespace {

// Decays as predicted.
Compared measured_ring() {
  Compared ring;
  ring.name = "ring";
  ring.analysis.round_factor = 0.9;
  ring.analysis.consensus_factor = 0.99;
  ring.pairwise.seeds = 4;
  for (std::uint64_t k = 0; k <= 1000; k += 10) {
    ring.pairwise.exchanges.push_back(k);
    ring.pairwise.v.push_back(std::pow(0.99, k));
  }
  for (int r = 0; r <= 100; ++r) ring.lock_step.v.push_back(std::pow(0.9, r));
  return ring;
}

// Exact after a round.
Compared measured_complete() {
  Compared complete = measured_ring();
  complete.name = "complete";
  complete.analysis.round_factor = 0;
  complete.lock_step = {{1, 1e-31}, 0.0, 1, 1e-16};
  return complete;
}

}  // namespace

TEST_CASE("the sheet of a comparison has a figure of exchanges and one of rounds, and marks exact averages") {
  const std::vector<Compared> both{measured_ring(), measured_complete()};
  const FigureSheet sheet = consensus_sheet(both, 8, 7);
  REQUIRE(sheet.figures.size() == 2);
  const PaperFigure &exchanges = sheet.figures[0], &rounds = sheet.figures[1];
  CHECK(exchanges.title == "Asynchronous pairwise gossip");
  CHECK(exchanges.lines[0].label == "ring");
  CHECK(rounds.lines[1].label == "complete (exact after 1 round)");
  // The prediction coincides with a curve that decays as predicted.
  const auto& predicted = exchanges.lines[0].predicted;
  REQUIRE(predicted.size() == 2);
  CHECK(predicted[0].first == Approx(0).margin(1e-9));
  CHECK(predicted[0].second == Approx(1));
  CHECK(rounds.lines[1].predicted.empty());
  REQUIRE(sheet.caption.size() == 2);
  CHECK(contains(sheet.caption[0], "8 peers"));
  CHECK(contains(sheet.caption[0], "over 4 worlds (seed 7)"));
}

TEST_CASE("the curves of a comparison end where they leave the plot, and both figures have the same height") {
  const std::vector<Compared> both{measured_ring(), measured_complete()};
  const FigureSheet sheet = consensus_sheet(both, 8, 7);
  CHECK(sheet.figures[0].y.shown == sheet.figures[1].y.shown);
  for (const PaperFigure& figure : sheet.figures) {
    const double x_max = figure.x.shown.at(1), y_min = figure.y.shown.at(0);
    for (const FigureLine& line : figure.lines) {
      REQUIRE(line.points.size() >= 2);
      for (const FigurePoint& point : line.points) {
        CHECK(point.x <= x_max * (1 + 1e-9));
        CHECK(point.y >= y_min * (1 - 1e-9));
      }
    }
  }
  // Straight down on the logarithmic axis from 1 to sqrt(1e-31): cut at y_min.
  const FigureLine& exact = sheet.figures[1].lines[1];
  REQUIRE(exact.points.size() == 2);
  const double y_min = sheet.figures[1].y.shown.at(0);
  CHECK(exact.points[1].y == Approx(y_min));
  CHECK(exact.points[1].x == Approx(std::log10(y_min) / -15.5));
}

TEST_CASE("a sheet of figures is drawn in every format, and an SVG has its title and caption as text") {
  const std::vector<Compared> both{measured_ring(), measured_complete()};
  const FigureSheet sheet = consensus_sheet(both, 8, 7);
  const auto svg = draw_sheet(sheet, {.width = 7, .height = 3, .format = PaperFormat::svg});
  REQUIRE(svg.ok());
  CHECK(contains(*svg, "<title>consensus of 8 peers</title>"));
  CHECK(contains(*svg, "<desc>8 peers. V = "));
  CHECK(svg->find("nan") == std::string::npos);
  CHECK(svg->find("inf") == std::string::npos);
  CHECK(draw_sheet(sheet, {.width = 7, .height = 3, .format = PaperFormat::pdf})->starts_with("%PDF-"));
  CHECK(contains(draw_sheet(sheet, {.width = 7, .height = 0.5}).error().message, "the figure is too small"));
}

}  // namespace starling::lab
