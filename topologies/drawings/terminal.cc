// to_terminal() of topologies/drawings/drawing.h: a canvas of braille characters, each 2 dots wide and 4
// high, with the numbers of the nodes written over it.
#include <algorithm>
#include <cmath>
#include <string>

#include "topologies/drawings/drawing.h"

namespace starling::topologies {
namespace {

constexpr int kWidth = 57, kHeightMax = 25;  // in characters
constexpr int kRimX = 2, kRimY = 1;          // margins for numbers

std::string utf8(unsigned code) {  // of three bytes
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// Whether the dots are in the upper half, the lower one, or both.
std::string ascii_dots(unsigned dots) {
  constexpr unsigned kUpper = 0x01 | 0x08 | 0x02 | 0x10;
  return (dots & kUpper) == 0 ? "." : (dots & ~kUpper) == 0 ? "'" : ":";
}

class Canvas {
 public:
  explicit Canvas(int height) : height_(height), cells_(static_cast<std::size_t>(kWidth * height)) {}

  void dot(int x, int y) {  // in dots
    if (x < 0 || y < 0 || x >= 2 * kWidth || y >= 4 * height_) return;
    constexpr unsigned bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    cell(x / 2, y / 4).dots |= bits[y % 4][x % 2];
  }
  void write(int x, int y, std::string character) {  // in characters
    if (x >= 0 && y >= 0 && x < kWidth && y < height_) cell(x, y).written = std::move(character);
  }

  std::string text(bool ascii) const {
    std::string out;
    for (int y = 0; y < height_; ++y) {
      std::string line;
      std::size_t used = 0;
      for (int x = 0; x < kWidth; ++x) {
        const Cell& c = cells_[static_cast<std::size_t>(y * kWidth + x)];
        line += !c.written.empty() ? c.written
                : c.dots != 0      ? (ascii ? ascii_dots(c.dots) : utf8(0x2800 + c.dots))
                                   : " ";
        if ((!c.written.empty() && c.written != " ") || c.dots != 0) used = line.size();
      }
      out += line.substr(0, used) + "\n";
    }
    return out;
  }

 private:
  struct Cell {
    unsigned dots = 0;
    std::string written;
  };
  Cell& cell(int x, int y) { return cells_[static_cast<std::size_t>(y * kWidth + x)]; }

  int height_;
  std::vector<Cell> cells_;
};

struct Pixel {
  double x, y;  // in dots
};

// A straight line, or an arc that deviates by `bend` dots in the middle.
void draw_line(Canvas& canvas, Pixel a, Pixel b, double bend) {
  const double length = std::hypot(b.x - a.x, b.y - a.y);
  const double nx = (b.y - a.y) / std::max(1.0, length), ny = (a.x - b.x) / std::max(1.0, length);
  const int steps = static_cast<int>(2 * length) + 1;
  for (int k = 0; k <= steps; ++k) {
    const double t = static_cast<double>(k) / steps, off = 4 * bend * t * (1 - t);
    canvas.dot(static_cast<int>(std::lround(a.x + t * (b.x - a.x) + off * nx)),
               static_cast<int>(std::lround(a.y + t * (b.y - a.y) + off * ny)));
  }
}

// The arrow that points from a to b.
std::string arrow(Pixel a, Pixel b, bool ascii) {
  constexpr unsigned arrows[8] = {0x2192, 0x2198, 0x2193, 0x2199,
                                  0x2190, 0x2196, 0x2191, 0x2197};  // clockwise from the right
  const double eighth = std::atan2(b.y - a.y, b.x - a.x) / (std::acos(-1.0) / 4);
  const std::size_t direction = static_cast<std::size_t>(std::lround(eighth) + 8) % 8;
  return ascii ? std::string(1, "> v < ^ "[direction / 2 * 2]) : utf8(arrows[direction]);
}

}  // namespace

std::string to_terminal(const Graph& graph, const Layout& layout, bool ascii) {
  const std::uint32_t n = graph.nodes();
  STARLING_CHECK(n <= kTerminalNodesMax && layout.size() == n);
  double tall = 0;
  for (const Point& p : layout) tall = std::max(tall, std::abs(p.y));
  const double reach =
      std::min(kWidth - 1 - 2.0 * kRimX, 2.0 * (kHeightMax - 1 - 2.0 * kRimY));  // dots each way
  const int height = std::max(3, static_cast<int>(std::lround(2 * tall * reach / 4)) + 1 + 2 * kRimY);
  Canvas canvas(height);
  std::vector<Pixel> nodes(n);
  for (std::uint32_t i = 0; i < n; ++i)
    nodes[i] = {kWidth + reach * layout[i].x, 2.0 * height + reach * layout[i].y};

  const auto crosses_a_node = [&](std::uint32_t i, std::uint32_t j) {
    const double dx = nodes[j].x - nodes[i].x, dy = nodes[j].y - nodes[i].y, length = std::hypot(dx, dy);
    for (std::uint32_t k = 0; k < n; ++k) {
      const double px = nodes[k].x - nodes[i].x, py = nodes[k].y - nodes[i].y;
      const double along = (px * dx + py * dy) / length;
      if (k != i && k != j && along > 0 && along < length && std::abs(px * dy - py * dx) < 3 * length)
        return true;
    }
    return false;
  };
  graph.for_each_edge([&](std::uint32_t i, std::uint32_t j) {
    const double length = std::hypot(nodes[j].x - nodes[i].x, nodes[j].y - nodes[i].y);
    draw_line(canvas, nodes[i], nodes[j], crosses_a_node(i, j) ? std::min(12.0, 0.12 * length) : 0);
  });
  if (graph.directed()) {
    graph.for_each_edge([&](std::uint32_t i, std::uint32_t j) {
      const double length = std::max(1.0, std::hypot(nodes[j].x - nodes[i].x, nodes[j].y - nodes[i].y));
      const double back = std::min(0.4 * length, 9.0) / length;  // beside the number
      canvas.write(static_cast<int>((nodes[j].x + back * (nodes[i].x - nodes[j].x)) / 2),
                   static_cast<int>((nodes[j].y + back * (nodes[i].y - nodes[j].y)) / 4),
                   arrow(nodes[i], nodes[j], ascii));
    });
  }
  double least = 1e9;
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = 0; j < i; ++j)
      least = std::min(least, std::hypot(nodes[i].x - nodes[j].x, nodes[i].y - nodes[j].y));
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::string number = std::to_string(i);
    const int x = static_cast<int>(nodes[i].x / 2), y = static_cast<int>(nodes[i].y / 4);
    for (std::size_t k = 0; k < number.size(); ++k)
      canvas.write(x + static_cast<int>(k), y, std::string(1, number[k]));
    if (least < 12) continue;  // blanks on both sides would hide the links
    canvas.write(x - 1, y, " ");
    canvas.write(x + static_cast<int>(number.size()), y, " ");
  }
  return canvas.text(ascii);
}

}  // namespace starling::topologies
