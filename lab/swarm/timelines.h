// The time lines of a swarm's members: what each did when, drawn from its reports and from the pauses that
// the launcher inflicts. Times are seconds from the run's first step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/swarm/swarm_run.h"
#include "training/runs/records/timeline.h"

namespace starling::lab {

class Timelines {
 public:
  // `peers` limits the length of timeline.jsonl.
  Timelines(std::size_t members, std::size_t peers)
      : lines_(members, Line{training::Timeline(training::Timeline::most_cells(peers), kFirstCell)}) {}

  // What a member did between its previous report and the one received at `at`. Reports count seconds without
  // regard to pauses.
  void add_report(std::uint32_t member, const training::PeerReport& previous,
                  const training::PeerReport& report, double at) {
    Line& line = lines_[member];
    const double time = at - line.drawn;
    if (!(time > 0)) return;
    const double this_pause = line.paused_at ? at - std::max(*line.paused_at, line.drawn) : 0;
    const double still = std::min(time, line.stood_still + this_pause);
    const double active = time - still;
    const training::Activity doing = activity_of(previous, report, active, still);
    const auto steps = static_cast<double>(report.steps - std::min(report.steps, previous.steps));
    // A pause that lasts is drawn after the activity: the report was sent before it began.
    const bool lasts = line.paused_at.has_value();
    const double from = lasts ? line.drawn : line.drawn + still;
    if (!lasts) line.cells.add(line.drawn, from, kStopped);
    line.cells.add(from, from + active, doing, steps);
    if (lasts) line.cells.add(from + active, at, kStopped);
    line.drawn = at;
    line.stood_still = 0;
  }

  // The member had no process until `at`.
  void add_absence(std::uint32_t member, double at) {
    Line& line = lines_[member];
    line.cells.add(line.drawn, at, kStopped);
    line = {std::move(line.cells), std::max(line.drawn, at)};
  }
  void pause(std::uint32_t member, double at) { lines_[member].paused_at = at; }

  void resume(std::uint32_t member, double at) {
    Line& line = lines_[member];
    if (!line.paused_at) return;
    line.stood_still += at - std::max(*line.paused_at, line.drawn);
    line.paused_at.reset();
  }

  // The lines of timeline.jsonl; members that ended early are filled up to the latest end.
  std::string lines(const std::vector<SwarmMember>& members) {
    double end = 0;
    for (const Line& line : lines_) end = std::max(end, line.drawn);
    std::string text;
    for (const SwarmMember& member : members) {
      Line& line = lines_[member.number];
      line.cells.add(line.drawn, end, kStopped);
      text += training::to_json_lines(member.name, line.cells);
    }
    return text;
  }

 private:
  static constexpr double kFirstCell = 0.125;  // seconds: half the time between two reports
  static constexpr training::Activity kStopped{.stopped = 1};

  struct Line {
    training::Timeline cells;
    double drawn = 0;  // up to here
    std::optional<double> paused_at{};
    double stood_still = 0;  // seconds of pauses that ended since `drawn`
  };

  // The shares of `active` seconds in which the member was neither paused nor absent. Its clocks also count
  // the `still` seconds, which appear as computing or as waiting.
  static training::Activity activity_of(const training::PeerReport& previous,
                                        const training::PeerReport& report, double active, double still) {
    training::Activity doing;
    if (!(active > 0)) return doing;
    double computing = std::max(0.0, report.computing_seconds - previous.computing_seconds);
    double waiting = std::max(0.0, report.waiting_seconds - previous.waiting_seconds);
    const double exchanging = std::max(0.0, report.exchanging_seconds - previous.exchanging_seconds);
    waiting = std::max(0.0, waiting - std::max(0.0, still - computing));
    computing = std::max(0.0, computing - still);
    doing.computing = std::min(1.0, computing / active);
    doing.exchanging = std::min(1.0, exchanging / active);
    doing.waiting = std::min({1.0, waiting / active, 1 - std::max(doing.computing, doing.exchanging)});
    doing.waiting = std::max(doing.waiting, 1 - doing.computing - doing.exchanging);
    return doing;
  }

  std::vector<Line> lines_;
};

}  // namespace starling::lab
