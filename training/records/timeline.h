// What a peer did over a run: the share of each activity in cells of equal length, and the steps that ended
// there. However long a run is, there are at most so many cells: when they are used up, each two become one
// that is twice as long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace starling::training {

// Parts of a time, each in [0, 1]. Steps go on while parameters are exchanged, so `computing` and
// `exchanging` may overlap; `waiting` is neither, and `stopped` excludes the others: what is not waiting and
// not stopped is computing, exchanging or both.
struct Activity {
  double computing = 0;   // a worker is in a step
  double exchanging = 0;  // an exchange is under way that this peer began or answers
  double waiting = 0;     // up, but for a partner, a barrier, or a first copy of the parameters
  double stopped = 0;     // not started yet, paused, crashed, left, finished
};

class Timeline {
 public:
  // Times are seconds from the run's start; `first_cell` is how long a cell is at first.
  explicit Timeline(std::size_t most_cells = 1024, double first_cell = 1e-3);

  // What the peer did from `from` to `to`, and how many steps ended meanwhile; nothing where that is no time.
  void add(double from, double to, const Activity& activity, double steps = 0);
  void add_step(double at);

  struct Cell {
    double from = 0, to = 0;  // seconds
    Activity activity;        // parts of it
    double steps = 0;         // that ended in it
  };
  // In order, without gaps from 0 on; neighbors in which nothing changes are one. The last one ends where the
  // latest add() ended.
  std::vector<Cell> cells() const;

  // Of how many cells each peer's should be, so that a run's file stays within some megabytes.
  static std::size_t most_cells(std::size_t peers);

 private:
  struct Sums {
    float computing = 0, exchanging = 0, waiting = 0, stopped = 0;  // seconds
    float steps = 0;
  };
  Sums& at(std::size_t cell);  // makes room
  std::size_t cell_of(double seconds);

  std::size_t most_cells_;
  double cell_;  // seconds
  double end_ = 0;
  std::vector<Sums> sums_;
};

// timeline.jsonl: a line a cell.
//   {"peer":"p3","from":1.2,"to":1.4,"computing":1,"exchanging":0.25,"waiting":0,"stopped":0,"steps":10}
std::string to_json_lines(const std::string& peer, const Timeline& timeline);

}  // namespace starling::training
