// What commands print for people: warnings, progress, tables and the summary of a run.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/shell/log.h"
#include "training/runs/records/record.h"

namespace starling::cli {

// Logs a warning; nothing if the sentence is empty.
void warn(const std::string& sentence);

// A line of progress on standard error that is redrawn. Where it cannot be redrawn, in a file or a log in
// JSON, a line is written every ten seconds.
class ProgressLine {
 public:
  // Redraws the line if the text has changed.
  void show(const std::string& text);
  void clear();

 private:
  bool terminal_ = may_redraw();
  std::string shown_;
  std::chrono::steady_clock::time_point written_ = std::chrono::steady_clock::now();
};

// Estimates how long something still takes from the fraction that is done, which only grows.
class TimeLeft {
 public:
  // In seconds, at the mean speed since the first call that had a fraction above 0; nullopt in the first
  // second, and if the fraction is 0.
  std::optional<double> after(double fraction);

 private:
  std::optional<std::pair<std::chrono::steady_clock::time_point, double>> first_;  // time and fraction
};

// The rows, one line each, with two spaces between the columns. The first `left` columns are aligned left,
// the others right. REQUIRES: all rows have the same length.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t left);

// The value in this format, or "-".
template <class T>
std::string or_dash(const std::optional<T>& value, const char* format = "{}") {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

// How the stages of a peer used their time: a line about all, and a table with a row for each.
std::string stages_text(const training::PipelineRecord& pipeline);

// "stopped at epoch 0.4 of 3", of an interrupted run.
std::string stopped_at(const training::Summary& summary);

// The result of a run for people: a line per peer, accuracy, cost, and the folder of the results.
std::string summary_text(const training::Summary& summary, const std::string& folder);

// "1.5 kB", "47 MB": decimal prefixes, three digits.
std::string format_bytes(double bytes);
template <class Count>
std::string format_bytes(Count bytes) {
  return format_bytes(static_cast<double>(bytes));
}
std::string format_count(double count);  // "12", "1.5 k", "47 M"

}  // namespace starling::cli
