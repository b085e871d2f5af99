#include "training/runs/records/timeline.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "training/runs/records/json.h"

namespace starling::training {
namespace {

// To 1e-4, enough for a picture.
double rounded(double part) { return std::round(std::clamp(part, 0.0, 1.0) * 1e4) / 1e4; }

// The unit of times in files.
double to_microseconds(double seconds) { return std::round(seconds * 1e6); }

}  // namespace

Timeline::Timeline(std::size_t most_cells, double first_cell) : most_cells_(most_cells), cell_(first_cell) {
  STARLING_CHECK(most_cells >= 2 && first_cell > 0);
}

std::size_t Timeline::most_cells(std::size_t peers) {
  return std::clamp<std::size_t>(65536 / std::max<std::size_t>(peers, 1), 64, 1024);
}

std::size_t Timeline::cell_of(double seconds) {
  while (seconds >= cell_ * static_cast<double>(most_cells_)) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const Sums it = sums_[i];
      Sums& both = sums_[i / 2];
      for (std::size_t k = 0; k < it.size(); ++k) both[k] = i % 2 == 0 ? it[k] : both[k] + it[k];
    }
    sums_.resize((sums_.size() + 1) / 2);
    cell_ *= 2;
  }
  return static_cast<std::size_t>(seconds / cell_);
}

Timeline::Sums& Timeline::at(std::size_t cell) {
  if (sums_.size() <= cell) sums_.resize(cell + 1);
  return sums_[cell];
}

void Timeline::add(double from, double to, const Activity& activity, double steps) {
  from = std::max(from, 0.0);
  if (!(from < to)) return;
  const double rate = steps / (to - from);
  end_ = std::max(end_, to);
  const std::size_t last = cell_of(to);  // before the first: it may make cells longer
  for (std::size_t cell = cell_of(from); cell <= last; ++cell) {
    const double begin = std::max(from, static_cast<double>(cell) * cell_);
    const double end = std::min(to, static_cast<double>(cell + 1) * cell_);
    if (!(begin < end)) continue;
    Sums& sums = at(cell);
    const double seconds = end - begin;
    const std::array<double, 5> rates = {activity.computing, activity.exchanging, activity.waiting,
                                         activity.stopped, rate};
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += static_cast<float>(rates[k] * seconds);
  }
}

void Timeline::add_step(double at_seconds) {
  if (!(at_seconds >= 0)) return;
  at(cell_of(at_seconds)).back() += 1;
  end_ = std::max(end_, at_seconds);
}

std::vector<Timeline::Cell> Timeline::cells() const {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto [computing, exchanging, waiting, stopped, steps] = sums_[i];
    Cell cell;
    cell.from = static_cast<double>(i) * cell_;
    cell.to = std::min(static_cast<double>(i + 1) * cell_, end_);
    if (to_microseconds(cell.from) == to_microseconds(cell.to)) {  // a step at the very end
      if (!cells.empty()) cells.back().steps += static_cast<double>(steps);
      break;
    }
    // Before the first add() the peer was not there.
    const double reported = std::max(1e-12, static_cast<double>(computing + exchanging + waiting + stopped));
    const double seconds = cell.to - cell.from;
    const auto part = [seconds](float sum) { return rounded(static_cast<double>(sum) / seconds); };
    cell.activity = {part(computing), part(exchanging), part(waiting), part(stopped)};
    if (reported <= 1e-12) cell.activity.stopped = 1;
    cell.steps = static_cast<double>(steps);
    const bool nothing_new = !cells.empty() && cell.steps == 0 && cells.back().steps == 0 &&
                             cells.back().activity == cell.activity;
    if (nothing_new) {
      cells.back().to = cell.to;
    } else {
      cells.push_back(cell);
    }
  }
  return cells;
}

std::string to_json_lines(const std::string& peer, const Timeline& timeline) {
  std::string text;
  for (const Timeline::Cell& cell : timeline.cells()) {
    text += to_line({{"peer", peer},
                     {"from", to_microseconds(cell.from) / 1e6},
                     {"to", to_microseconds(cell.to) / 1e6},
                     {"computing", cell.activity.computing},
                     {"exchanging", cell.activity.exchanging},
                     {"waiting", cell.activity.waiting},
                     {"stopped", cell.activity.stopped},
                     {"steps", std::round(cell.steps * 1e3) / 1e3}});
  }
  return text;
}

}  // namespace starling::training
