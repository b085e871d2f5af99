// The time lines of a report.
#include <algorithm>
#include <array>
#include <numeric>

#include "lab/report/report.h"

namespace starling::lab {
namespace {

using Cell = training::Timeline::Cell;

constexpr std::size_t kColumns = 360;
constexpr std::size_t kMostRows = 96;
constexpr double kSlowestShown = 1000;

struct Peer {
  explicit Peer(const PeerCells& of);
  double pace() const { return computing > 0 ? steps / computing : 0; }  // steps per second of computing

  const PeerCells& of;
  double computing = 0, steps = 0;  // seconds; all
  double end = 0;                   // of the last activity
  std::vector<double> paces;        // by cell
};

// A step counts in the cell in which it ends. A pace is valid for the whole time that its steps took: it is
// the steps over the computing time of some cells, up to one in which a step ended, which counts half.
std::vector<double> paces_of(const std::vector<Cell>& cells) {
  constexpr double kStepsEnough = 3;
  constexpr std::size_t kCellsEnough = 4;  // if a cell is nearly as long as a step
  std::size_t begin = 0;
  double computing = 0, steps = 0, latest = 0;
  std::vector<double> paces(cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    const double half = cell.activity.computing * (cell.to - cell.from) / 2;
    computing += half;
    steps += cell.steps;
    if (cell.steps <= 0 || (steps < kStepsEnough && i + 1 - begin < kCellsEnough)) {
      computing += half;
      continue;
    }
    if (computing > 0) latest = steps / computing;
    for (; begin <= i; ++begin) paces[begin] = latest;
    computing = half;
    steps = 0;
  }
  // An upper bound for the step that was under way at the end.
  const double rest =
      computing > 0 ? std::min(latest > 0 ? latest : 1 / computing, (steps + 1) / computing) : latest;
  for (; begin < paces.size(); ++begin) paces[begin] = std::max(rest, 1e-9);
  return paces;
}

Peer::Peer(const PeerCells& its) : of(its), paces(paces_of(its.cells)) {
  for (const Cell& cell : of.cells) {
    computing += cell.activity.computing * (cell.to - cell.from);
    steps += cell.steps;
    if (cell.activity.computing > 0 || cell.activity.exchanging > 0) end = std::max(end, cell.to);
  }
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

float slowness(double usual, double pace) {
  if (usual <= 0 || pace <= 0) return 1;
  return static_cast<float>(std::clamp(usual / pace, 1 / kSlowestShown, kSlowestShown));
}

// The cells' parts as columns over [0, end).
ReportRow row_of(const Peer& peer, double end, double usual) {
  ReportRow row;
  row.peer = peer.of.peer;
  row.columns.resize(kColumns);
  const double width = end / static_cast<double>(kColumns);
  std::vector<double> paced(kColumns), computed(kColumns), covered(kColumns);
  for (auto& column : row.columns) column = {0, 0, 0, 0, 1};
  for (std::size_t i = 0; i < peer.of.cells.size(); ++i) {
    const Cell& cell = peer.of.cells[i];
    const training::Activity& doing = cell.activity;
    const auto first = static_cast<std::size_t>(std::max(0.0, cell.from / width));
    for (std::size_t k = first; k < kColumns && static_cast<double>(k) * width < cell.to; ++k) {
      const double from = std::max(cell.from, static_cast<double>(k) * width);
      const double to = std::min(cell.to, static_cast<double>(k + 1) * width);
      if (!(from < to)) continue;
      const double part = (to - from) / width;
      auto& column = row.columns[k];
      column.computing += static_cast<float>(part * doing.computing);
      column.exchanging += static_cast<float>(part * doing.exchanging);
      column.waiting += static_cast<float>(part * doing.waiting);
      column.stopped += static_cast<float>(part * doing.stopped);
      covered[k] += part;
      computed[k] += part * doing.computing;
      paced[k] += part * doing.computing * peer.paces[i];
    }
  }
  for (std::size_t k = 0; k < kColumns; ++k) {
    auto& column = row.columns[k];
    column.stopped += static_cast<float>(std::max(0.0, 1 - covered[k]));  // after the last cell
    if (computed[k] > 0) column.slowness = slowness(usual, paced[k] / computed[k]);
    const std::array<float, 4> parts{column.computing, column.exchanging, column.waiting, column.stopped};
    for (std::size_t i = 0; i < 4; ++i)
      row.parts[i] += static_cast<double>(parts[i]) / static_cast<double>(kColumns);
  }
  if (peer.computing > 0) row.slowness = static_cast<double>(slowness(usual, peer.pace()));
  return row;
}

// The slowest and the fastest peers and an even selection of the rest, if there are too many, in their order.
std::vector<std::size_t> shown(const std::vector<Peer>& peers) {
  std::vector<std::size_t> all(peers.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (all.size() <= kMostRows) return all;
  std::stable_sort(all.begin(), all.end(),
                   [&](std::size_t a, std::size_t b) { return peers[a].pace() < peers[b].pace(); });
  constexpr std::size_t kEnds = kMostRows / 4;
  std::vector<std::size_t> some(all.begin(), all.begin() + kEnds);
  const std::size_t between = all.size() - 2 * kEnds, wanted = kMostRows - 2 * kEnds;
  for (std::size_t i = 0; i < wanted; ++i) some.push_back(all[kEnds + i * between / wanted]);
  some.insert(some.end(), all.end() - kEnds, all.end());
  std::sort(some.begin(), some.end());
  return some;
}

}  // namespace

void make_rows(ReportRun& run, const std::vector<PeerCells>& all) {
  const std::vector<Peer> peers(all.begin(), all.end());
  double end = 0;
  std::vector<double> paces;
  for (const Peer& peer : peers) {
    end = std::max(end, peer.end);
    if (peer.pace() > 0) paces.push_back(peer.pace());
  }
  if (end <= 0) return;
  const double usual = median(paces);
  run.rows_to = end;
  const auto some = shown(peers);
  run.peers_not_shown = peers.size() - some.size();
  for (const std::size_t i : some) run.rows.push_back(row_of(peers[i], end, usual));
}

}  // namespace starling::lab
