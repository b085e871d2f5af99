// The curves of a report as one long CSV file.
#include <fmt/format.h>

#include <filesystem>

#include "lab/report/report.h"
#include "training/runs/experiment/kinds.h"

namespace starling::lab {
namespace {

// A column of figures; a figure that was not measured is an empty cell.
struct FigureColumn {
  const char* name;
  std::optional<double> (*of)(const ReportPoint&);
};

constexpr std::array kFigureColumns = {
    FigureColumn{"seconds", [](const ReportPoint& p) { return std::optional(p.seconds); }},
    FigureColumn{"samples", [](const ReportPoint& p) { return std::optional(p.samples); }},
    FigureColumn{"bytes_sent", [](const ReportPoint& p) { return p.bytes; }},
    FigureColumn{"accuracy", [](const ReportPoint& p) { return p.accuracy; }},
    FigureColumn{"loss", [](const ReportPoint& p) { return p.loss; }},
    FigureColumn{"training_loss", [](const ReportPoint& p) { return p.training_loss; }},
    FigureColumn{"consensus_distance", [](const ReportPoint& p) { return p.consensus; }},
};

std::string run_cells(const Report& report, const ReportRun& run) {
  std::string text;
  for (const std::string& value : report.groups[run.group].values) text += training::csv_cell(value) + ",";
  const std::string folder = std::filesystem::path(run.folder).filename().string();
  return text + fmt::format("{},{},", run.seed, training::csv_cell(folder));
}

}  // namespace

Result<std::string> curves_csv(const Report& report) {
  std::string text;
  for (const std::string& name : report.names) text += training::csv_cell(name) + ",";
  text += "seed,run,look,";
  for (const FigureColumn& column : kFigureColumns) text += std::string(column.name) + ",";
  text += "end\n";
  for (const ReportRun& run : report.runs) {
    const auto points = read_points(run.folder, run);
    if (!points) return points.error();
    const std::string cells = run_cells(report, run);
    for (std::size_t look = 0; look < points->size(); ++look) {
      const ReportPoint& point = (*points)[look];
      text += cells + fmt::format("{},", look + 1);
      for (const FigureColumn& column : kFigureColumns) {
        if (const auto figure = column.of(point)) text += fmt::format("{:.10g}", *figure);
        text += ",";
      }
      text += point.is_end ? "true\n" : "false\n";
    }
  }
  return text;
}

}  // namespace starling::lab
