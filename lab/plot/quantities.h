// What can be plotted: quantities along the runs, and results of runs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/plot/units.h"
#include "lab/report/report.h"

namespace starling::lab {

struct FigureX {
  const char* name;
  const char* title;
  FigureUnit unit;
  std::optional<double> (*of)(const ReportRun&, const ReportPoint&);
};

struct FigureY {
  const char* name;
  const char* title;
  FigureUnit unit;
  bool log;  // varies by factors: on a logarithmic axis by default, with statistics of logarithms
  std::optional<double> (*of_point)(const ReportPoint&);  // null: it has no curve
  std::optional<double> (*of_run)(const ReportRun&);      // null: it is no result of a run
  Limits limits() const { return {0, unit == FigureUnit::percent ? 1 : Limits().most}; }
};

std::span<const FigureX> figure_xs();
std::span<const FigureY> figure_ys();
// By name, in which '-' and '_' are the same; null if there is none.
const FigureX* find_figure_x(std::string_view name);
const FigureY* find_figure_y(std::string_view name);

std::vector<std::string> figure_x_names();
std::vector<std::string> figure_y_names();

}  // namespace starling::lab
