#include "lab/report/report_rows.h"

#include <algorithm>
#include <cmath>

#include "training/records/json.h"

namespace starling::lab {
namespace {

using training::Json;

constexpr std::size_t kColumns = 360;
constexpr std::size_t kMostRows = 96;
constexpr double kSlowestShown = 1000;

struct Cell {
  double from = 0, to = 0;
  double computing = 0, exchanging = 0, waiting = 0, stopped = 0;  // parts
  double steps = 0;
  double pace = 0;  // steps in a second of computing
};

struct Peer {
  std::string name;
  std::vector<Cell> cells;
  double computing = 0, steps = 0;  // seconds; all
};

// A step counts in the cell in which it ends. A pace holds for the whole time that its steps took: it is the
// steps over the computing time of some cells, up to one in which a step ended, of which half counts.
void find_paces(Peer& peer) {
  constexpr double kStepsEnough = 3;
  constexpr std::size_t kCellsEnough = 4;  // if a cell is nearly as long as a step
  std::size_t begin = 0;
  double computing = 0, steps = 0, latest = 0;
  for (std::size_t i = 0; i < peer.cells.size(); ++i) {
    Cell& cell = peer.cells[i];
    const double half = cell.computing * (cell.to - cell.from) / 2;
    computing += half;
    steps += cell.steps;
    if (cell.steps <= 0 || (steps < kStepsEnough && i + 1 - begin < kCellsEnough)) {
      computing += half;
      continue;
    }
    if (computing > 0) latest = steps / computing;
    for (; begin <= i; ++begin) peer.cells[begin].pace = latest;
    computing = half;
    steps = 0;
  }
  // An upper bound for the step that was under way at the end.
  const double rest =
      computing > 0 ? std::min(latest > 0 ? latest : 1 / computing, (steps + 1) / computing) : latest;
  for (; begin < peer.cells.size(); ++begin) peer.cells[begin].pace = std::max(rest, 1e-9);
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
  row.peer = peer.name;
  row.columns.resize(kColumns);
  const double width = end / static_cast<double>(kColumns);
  std::vector<double> paced(kColumns), computed(kColumns), covered(kColumns);
  for (auto& column : row.columns) column = {0, 0, 0, 0, 1};
  for (const Cell& cell : peer.cells) {
    const auto first = static_cast<std::size_t>(std::max(0.0, cell.from / width));
    for (std::size_t k = first; k < kColumns && static_cast<double>(k) * width < cell.to; ++k) {
      const double from = std::max(cell.from, static_cast<double>(k) * width);
      const double to = std::min(cell.to, static_cast<double>(k + 1) * width);
      if (!(from < to)) continue;
      const double part = (to - from) / width;
      auto& column = row.columns[k];
      column.computing += static_cast<float>(part * cell.computing);
      column.exchanging += static_cast<float>(part * cell.exchanging);
      column.waiting += static_cast<float>(part * cell.waiting);
      column.stopped += static_cast<float>(part * cell.stopped);
      covered[k] += part;
      computed[k] += part * cell.computing;
      paced[k] += part * cell.computing * cell.pace;
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
  if (peer.computing > 0) row.slowness = static_cast<double>(slowness(usual, peer.steps / peer.computing));
  return row;
}

// The slowest and the fastest peers and an even selection of the rest, if there are too many, in their order.
std::vector<std::size_t> shown(const std::vector<Peer>& peers) {
  std::vector<std::size_t> all(peers.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  if (all.size() <= kMostRows) return all;
  std::stable_sort(all.begin(), all.end(), [&](std::size_t a, std::size_t b) {
    const auto pace = [&](std::size_t i) {
      return peers[i].computing > 0 ? peers[i].steps / peers[i].computing : 0;
    };
    return pace(a) < pace(b);
  });
  constexpr std::size_t kEnds = kMostRows / 4;
  std::vector<std::size_t> some(all.begin(), all.begin() + kEnds);
  const std::size_t between = all.size() - 2 * kEnds, wanted = kMostRows - 2 * kEnds;
  for (std::size_t i = 0; i < wanted; ++i) some.push_back(all[kEnds + i * between / wanted]);
  some.insert(some.end(), all.end() - kEnds, all.end());
  std::sort(some.begin(), some.end());
  return some;
}

// nullopt if the line is not one of a timeline.jsonl. Sets the peer's name.
std::optional<Cell> cell_of(const Json& line, std::string& peer) {
  Cell cell;
  bool good = line.is_object() && line.contains("peer") && line["peer"].is_string();
  const auto take = [&](const char* key, double& to) {
    good = good && line.contains(key) && line[key].is_number();
    if (good) to = line[key].get<double>();
  };
  take("from", cell.from);
  take("to", cell.to);
  take("computing", cell.computing);
  take("exchanging", cell.exchanging);
  take("waiting", cell.waiting);
  take("stopped", cell.stopped);
  take("steps", cell.steps);
  if (!good || !(cell.from < cell.to)) return std::nullopt;
  peer = line["peer"].get<std::string>();
  return cell;
}

Result<std::vector<Peer>> read_peers(const std::string& text, const std::string& path) {
  std::vector<Peer> peers;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    ++number;
    if (end == std::string::npos) break;  // an incomplete line
    const Json line = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(at),
                                  text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    at = end + 1;
    std::string name;
    const auto cell = cell_of(line, name);
    if (!cell)
      return Error{path + " is damaged: line " + std::to_string(number) +
                   " is not a line of a time line; run it again, or leave this folder out"};
    if (peers.empty() || peers.back().name != name) peers.push_back({name, {}});
    peers.back().cells.push_back(*cell);
  }
  return peers;
}

}  // namespace

Status read_rows(ReportRun& run, const std::string& text, const std::string& path) {
  auto peers = read_peers(text, path);
  if (!peers) return peers.error();
  double end = 0;  // of the last activity
  std::vector<double> paces;
  for (Peer& peer : *peers) {
    find_paces(peer);
    for (const Cell& cell : peer.cells) {
      peer.computing += cell.computing * (cell.to - cell.from);
      peer.steps += cell.steps;
      if (cell.computing > 0 || cell.exchanging > 0) end = std::max(end, cell.to);
    }
    if (peer.computing > 0 && peer.steps > 0) paces.push_back(peer.steps / peer.computing);
  }
  if (end <= 0) return Done{};
  const double usual = median(paces);
  run.rows_to = end;
  const auto some = shown(*peers);
  run.peers_not_shown = peers->size() - some.size();
  for (const std::size_t i : some) run.rows.push_back(row_of((*peers)[i], end, usual));
  return Done{};
}

}  // namespace starling::lab
