// A figure as a value: what the runs of a report have measured, by kind, and how it is written down.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/report/report.h"

namespace starling::lab {

struct FigureAxis {
  std::string title;
  bool log = false;
  std::vector<double> shown = {};            // values that the axis has besides those of the lines
  std::vector<std::string> categories = {};  // of the x axis; if not empty, x is their number, from 0
};

struct FigurePoint {
  double x = 0, y = 0;
  std::optional<Interval95> spread;  // of y: a band, or an error bar
  bool partial = false;              // not all runs have this result
};

// A line with its entry in the legend.
struct FigureLine {
  std::string label;
  std::vector<FigurePoint> points;                        // x ascending
  std::vector<std::pair<double, double>> predicted = {};  // (x, y)
};

struct PaperFigure {
  std::string title;  // above the plot, of a figure beside others; mostly empty
  FigureAxis x, y;
  bool curves = true;  // bands along curves; else error bars at points
  std::vector<FigureLine> lines;
  std::string caption;               // sentences: what is shown
  std::vector<std::string> remarks;  // what is left out
};

// More kinds than this cannot be told apart in print.
inline constexpr std::size_t kMostFigureLines = 10;

struct FigureRequest {
  // A quantity along the runs (figure_x_names()), or a setting in which they differ, as its key or its short
  // name. Unset: seconds, or, for a result without a curve, the first setting with numbers.
  std::optional<std::string> x = {};
  // figure_y_names(). Unset: accuracy; by a setting, seconds_to_target if there is a target.
  std::optional<std::string> y = {};
  std::vector<std::string> by = {};      // settings that make kinds; empty: those in which the runs differ
  std::vector<std::string> only = {};    // kinds, as find_groups() knows them; empty: all
  std::vector<std::string> labels = {};  // KIND=TEXT
  std::optional<std::string> x_title = {}, y_title = {};
  std::optional<std::string> log = {};  // x, y, xy or none; unset: where the data need it
};

// Runs that do not count (ReportGroup::counted) are left out, unless no run of their kind counts. An Error
// names what is unknown, cannot be combined, or was not measured.
Result<PaperFigure> make_figure(const Report& report, const FigureRequest& request);

}  // namespace starling::lab
