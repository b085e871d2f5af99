// What a swarm looks like while it runs: a line a peer and a line for all. On a terminal it is redrawn in
// place; elsewhere one compact line is written now and then.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace starling::lab {

struct LiveRow {
  std::string name, state;
  std::uint64_t steps = 0;
  double samples_per_second = 0;
  std::optional<double> loss;
  std::uint64_t exchanges = 0;  // it took part in
  std::optional<double> distance;  // to its last partner, relative
};

struct LiveTotal {
  double seconds = 0;  // since the launch
  double epochs = 0;   // passed
  std::uint64_t exchanges = 0;  // completed; two peers take part in each
  std::optional<double> epochs_end = {};
  std::optional<double> seconds_left = {};
  std::optional<double> accuracy = {};  // of the mean model, where it is looked at
};

// The table, `lines` lines at most: peers that do not fit are counted in a line.
std::string table_text(const std::vector<LiveRow>& rows, const LiveTotal& total, std::size_t lines);
// The same in one line.
std::string line_text(const std::vector<LiveRow>& rows, const LiveTotal& total);

// Draws on standard error, as often as is good.
class LiveTable {
 public:
  // Where there is `tell`, nothing is drawn: it gets a line now and then, without its newline.
  explicit LiveTable(std::function<void(const std::string& line)> tell = {});
  // How long to wait before the next draw.
  double seconds_between() const { return terminal_ ? 0.25 : 5.0; }
  // Takes what was drawn off the terminal, so that a log line can be written; the next draw() shows it again.
  void clear();
  void draw(const std::vector<LiveRow>& rows, const LiveTotal& total);

 private:
  std::function<void(const std::string&)> tell_;
  bool terminal_;
  std::size_t drawn_lines_ = 0;
};

}  // namespace starling::lab
