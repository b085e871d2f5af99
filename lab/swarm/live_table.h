// How a swarm appears while it runs: a line per peer and a line for all. A terminal shows the table in place;
// elsewhere one compact line is written every few seconds.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "training/runs/records/peer_figures.h"

namespace starling::lab {

// The states of a peer that the launcher started: states that a peer reports
// (training/runs/experiment/control.h), and states that only the launcher can observe. Reports, the live
// table and summary.json use these names.
enum class ProcessState : std::uint8_t {
  starting,  // its process runs and has not reported yet
  joining,
  training,
  settling,
  finished,
  left,
  failed,   // reported by a peer that cannot continue
  crashed,  // its process ended by a signal, or before it had finished or left
  paused,   // stopped by a fault of the experiment
};

inline constexpr std::array<std::string_view, 9> kPeerStateNames = {
    "starting", "joining", "training", "settling", "finished", "left", "failed", "crashed", "paused"};

constexpr std::string_view name_of(ProcessState state) {
  return kPeerStateNames[static_cast<std::size_t>(state)];
}
constexpr std::optional<ProcessState> parse_peer_state(std::string_view name) {
  for (std::size_t i = 0; i < kPeerStateNames.size(); ++i) {
    if (kPeerStateNames[i] == name) return static_cast<ProcessState>(i);
  }
  return std::nullopt;
}

struct LiveRow : training::PeerFigures {
  std::string name;
  ProcessState state = ProcessState::starting;
  std::uint64_t exchanges = 0;  // begun or answered
};

struct LiveTotal {
  double seconds = 0;           // since the launch
  double epochs = 0;            // consumed by the swarm
  std::uint64_t exchanges = 0;  // completed; two peers take part in each
  std::optional<double> epochs_end = {};
  std::optional<double> seconds_left = {};
  std::optional<double> accuracy = {};  // of the mean model, at its latest evaluation
};

// The table, `lines` lines at most: a line counts the peers that do not fit.
std::string table_text(const std::vector<LiveRow>& rows, const LiveTotal& total, std::size_t lines);
// The same as one line.
std::string line_text(const std::vector<LiveRow>& rows, const LiveTotal& total);

// Draws on standard error.
class LiveTable {
 public:
  // With `tell`, nothing is drawn: it receives a line every few seconds, without its newline.
  explicit LiveTable(std::function<void(const std::string& line)> tell = {});
  // How long to wait until the next draw().
  double seconds_between() const { return terminal_ ? 0.25 : 5.0; }
  // Removes the table from the terminal to make room for a log line, until the next draw().
  void clear();
  void draw(const std::vector<LiveRow>& rows, const LiveTotal& total);

 private:
  std::function<void(const std::string&)> tell_;
  bool terminal_;
  std::size_t drawn_lines_ = 0;
};

}  // namespace starling::lab
