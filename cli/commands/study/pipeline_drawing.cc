#include "cli/commands/study/pipeline_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace starling::cli {
namespace {

using Entry = training::PipelineTrace::Entry;
using Pass = training::StageTask::Kind;

constexpr std::size_t kMostLines = 40;
constexpr double kColumnsOfShortest = 3;  // of the shortest pass, if there is room for that
constexpr double kFirstPart = 0.8;        // of the columns, at most, for the first micro-batch

// Seconds of a column; 0 if there is nothing to draw.
double seconds_of_column(const training::PipelineTrace& trace, std::size_t columns) {
  double shortest = std::numeric_limits<double>::infinity(), first = 0;
  for (const Entry& entry : trace.entries) {
    if (entry.work.task.kind == Pass::update || !(entry.end > entry.begin)) continue;
    shortest = std::min(shortest, entry.end - entry.begin);
    if (entry.work.task.number == 0) first = std::max(first, entry.end);
  }
  if (!std::isfinite(shortest)) return 0;
  const auto room = static_cast<double>(columns);
  return std::min(std::max(shortest / kColumnsOfShortest, first / (kFirstPart * room)), trace.seconds / room);
}

std::string drawn_pass(const Entry& entry, std::size_t columns) {
  std::string text = std::to_string(entry.work.task.number);
  if (text.size() >= columns) text.clear();
  return text + std::string(columns - text.size(), entry.work.task.kind == Pass::forward ? '>' : '<');
}

}  // namespace

std::string draw_pipeline(const training::PipelineTrace& trace) {
  std::vector<std::string> lines;
  std::size_t width = 0;
  for (const auto& replica : trace.replicas) {
    const bool several =
        replica.replica > 0 || (&replica != &trace.replicas.back() && (&replica + 1)->stage == replica.stage);
    lines.push_back(several ? fmt::format("stage {}.{}", replica.stage + 1, replica.replica + 1)
                            : fmt::format("stage {}", replica.stage + 1));
    width = std::max(width, lines.back().size() + 2);
  }
  const std::size_t columns = kDrawingColumns - width;
  const double column = seconds_of_column(trace, columns);
  if (column <= 0) return "";
  for (std::string& line : lines) line.resize(width, ' ');
  const auto column_at = [&](double seconds) {
    return static_cast<std::size_t>(std::min(std::round(seconds / column), static_cast<double>(columns)));
  };
  for (const Entry& entry : trace.entries) {
    if (entry.work.task.kind == Pass::update) continue;
    std::size_t number = 0;
    while (trace.replicas[number].stage != entry.stage || trace.replicas[number].replica != entry.replica)
      ++number;
    std::string& line = lines[number];
    const std::size_t begin = std::max(width + column_at(entry.begin), line.size());
    const std::size_t end = std::max(width + column_at(entry.end), begin + 1);
    if (begin >= kDrawingColumns) continue;
    line.resize(begin, ' ');
    line += drawn_pass(entry, end - begin);
    if (line.size() > kDrawingColumns) line.resize(kDrawingColumns);
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) {
    lines[i].resize(lines[i].find_last_not_of(' ') + 1);
    text += lines[i] + "\n";
  }
  if (lines.size() > kMostLines) text += fmt::format("and {} more\n", lines.size() - kMostLines);
  return text + "N>> forward and N<< backward pass of micro-batch N, as long as they take\n";
}

}  // namespace starling::cli
