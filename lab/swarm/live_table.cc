#include "lab/swarm/live_table.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <span>

#include "base/program.h"
#include "base/text.h"

namespace starling::lab {
namespace {

std::string number(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::string progress(const LiveTotal& total) {
  std::string text = fmt::format("{:.2f}", total.epochs);
  if (total.epochs_end) text += fmt::format(" of {:g}", *total.epochs_end);
  return text + " epochs";
}

double total_rate(const std::vector<LiveRow>& rows) {
  double rate = 0;
  for (const LiveRow& row : rows)
    rate += row.state == ProcessState::training ? row.samples_per_second.value_or(0) : 0;
  return rate;
}

std::string tail(const LiveTotal& total) {
  std::string text;
  if (total.accuracy) text += ", accuracy " + format_percent(*total.accuracy);
  if (total.seconds_left) text += ", " + format_time_left(*total.seconds_left);
  return text;
}

}  // namespace

std::string table_text(const std::vector<LiveRow>& rows, const LiveTotal& total, std::size_t lines) {
  // The head and the total take two lines.
  const std::size_t room = std::max<std::size_t>(lines, 4) - 2;
  const std::size_t shown = rows.size() <= room ? rows.size() : room - 1;
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<6} {:<9} {:>9} {:>10} {:>8} {:>10} {:>9}\n", "peer", "state", "steps", "samples/s",
                 "loss", "exchanges", "distance");
  for (const LiveRow& row : std::span(rows).first(shown)) {
    fmt::format_to(out, "{:<6} {:<9} {:>9} {:>10.0f} {:>8} {:>10} {:>9}\n", row.name, name_of(row.state),
                   row.steps, row.samples_per_second.value_or(0), number(row.loss, "{:.4f}"), row.exchanges,
                   number(row.distance, "{:.4f}"));
  }
  if (shown < rows.size()) fmt::format_to(out, "and {} more\n", rows.size() - shown);
  fmt::format_to(out, "{:.1f} s, {}, {:.0f} samples/s{}\n", total.seconds, progress(total), total_rate(rows),
                 tail(total));
  return text;
}

std::string line_text(const std::vector<LiveRow>& rows, const LiveTotal& total) {
  std::map<std::string_view, std::size_t> states;
  double loss = 0;
  std::size_t with_loss = 0;
  for (const LiveRow& row : rows) {
    ++states[name_of(row.state)];
    if (row.loss) {
      loss += *row.loss;
      ++with_loss;
    }
  }
  std::string text = fmt::format("{:.1f} s, {}", total.seconds, progress(total));
  auto out = std::back_inserter(text);
  for (const auto& [state, count] : states) fmt::format_to(out, ", {} {}", count, state);
  fmt::format_to(out, ", {:.0f} samples/s", total_rate(rows));
  if (with_loss > 0) fmt::format_to(out, ", loss {:.4f}", loss / static_cast<double>(with_loss));
  fmt::format_to(out, ", {} exchanges{}\n", total.exchanges, tail(total));
  return text;
}

LiveTable::LiveTable(std::function<void(const std::string& line)> tell)
    : tell_(std::move(tell)), terminal_(!tell_ && can_redraw(STDERR_FILENO)) {}

void LiveTable::clear() {
  if (drawn_lines_ > 0) std::fputs(fmt::format("\033[{}A\033[J", drawn_lines_).c_str(), stderr);
  drawn_lines_ = 0;
}

void LiveTable::draw(const std::vector<LiveRow>& rows, const LiveTotal& total) {
  if (tell_) {
    const std::string line = line_text(rows, total);
    return tell_(line.substr(0, line.size() - 1));
  }
  if (!terminal_) {
    std::fputs(line_text(rows, total).c_str(), stderr);
    return;
  }
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1;
  // A line that wraps would count as one when the next table is drawn over it.
  const std::string text =
      cut_to_columns(table_text(rows, total, known ? size.ws_row - 1U : 24U), size.ws_col);
  // Moves to the first line of the previous table and clears the rest of the screen.
  const std::string back = drawn_lines_ > 0 ? fmt::format("\033[{}A\033[J", drawn_lines_) : "";
  std::fputs((back + text).c_str(), stderr);  // one write, to prevent flicker
  drawn_lines_ = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace starling::lab
