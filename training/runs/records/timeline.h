// What a peer did over a run: the share of each activity, and the steps, in cells of equal length. The number
// of cells is bounded: when all are used, each two become one that is twice as long.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace starling::training {

// Parts of a time, each in [0, 1]. `computing` and `exchanging` may overlap; `waiting` is neither; `stopped`
// excludes the others. Time that is not waiting or stopped is computing, exchanging or both.
struct Activity {
  double computing = 0;   // a worker is in a step
  double exchanging = 0;  // an exchange is under way that this peer began or answers
  double waiting = 0;     // for a partner, a barrier, or a first copy of the parameters
  double stopped = 0;     // not started yet, paused, crashed, left, finished
  friend bool operator==(const Activity&, const Activity&) = default;
};

class Timeline {
 public:
  // Times are seconds from the run's start; `first_cell`: the first length of a cell.
  explicit Timeline(std::size_t most_cells = 1024, double first_cell = 1e-3);

  // What the peer did from `from` to `to`, and how many steps ended meanwhile. No effect unless from < to.
  void add(double from, double to, const Activity& activity, double steps = 0);
  void add_step(double at);

  struct Cell {
    double from = 0, to = 0;  // seconds
    Activity activity;        // parts of it
    double steps = 0;         // that ended in it
  };
  // In order, from 0 without gaps; equal neighbors are merged. The last one ends with the latest add().
  std::vector<Cell> cells() const;

  // The number of cells per peer with which a run's file has at most a few megabytes.
  static std::size_t most_cells(std::size_t peers);

 private:
  // Seconds of computing, exchanging, waiting and stopped; then steps.
  using Sums = std::array<float, 5>;
  Sums& at(std::size_t cell);  // makes room
  std::size_t cell_of(double seconds);

  std::size_t most_cells_;
  double cell_;  // seconds
  double end_ = 0;
  std::vector<Sums> sums_;
};

// timeline.jsonl: one line per cell.
//   {"peer":"p3","from":1.2,"to":1.4,"computing":1,"exchanging":0.25,"waiting":0,"stopped":0,"steps":10}
std::string to_json_lines(const std::string& peer, const Timeline& timeline);

}  // namespace starling::training
