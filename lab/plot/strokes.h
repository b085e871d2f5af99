// How a kind of runs looks: its color, dashes and marker. For .cc files of this room.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "lab/palette.h"
#include "lab/plot/canvas.h"

namespace starling::lab {

inline constexpr double kCurveWidth = 1.1, kMarkerRadius = 2.1;
inline constexpr const char* kPaperWhite = "#ffffff";

inline const char* color_of_kind(std::size_t kind) { return kKindColors[kind % kKindColors.size()]; }

// Five patterns. Kinds with the same marker have different ones.
inline std::span<const double> dashes_of_kind(std::size_t kind) {
  static constexpr std::array<double, 2> kLong = {5, 2}, kDots = {1.2, 1.8}, kShort = {3, 1.6};
  static constexpr std::array<double, 4> kDashDot = {5, 1.6, 1.2, 1.6};
  switch ((kind + kind / 5) % 5) {
    case 1:
      return kLong;
    case 2:
      return kDots;
    case 3:
      return kDashDot;
    case 4:
      return kShort;
    default:
      return {};
  }
}

// A circle, square, triangle, diamond, or triangle on its tip.
inline void draw_marker(Canvas& canvas, std::size_t kind, const Spot& at, bool hollow) {
  const char* color = color_of_kind(kind);
  const char* fill = hollow ? kPaperWhite : color;
  const Pen rim{color, 0.9};
  const double r = kMarkerRadius;
  const auto shape = [&](std::initializer_list<Spot> corners) {
    std::vector<Spot> placed;
    for (const Spot& corner : corners) placed.push_back({at.x + r * corner.x, at.y + r * corner.y});
    canvas.polygon(placed, fill, rim);
  };
  switch (kind % 5) {
    case 0:
      canvas.circle(at, r, fill, rim);
      break;
    case 1:
      shape({{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}});
      break;
    case 2:
      shape({{0, -1.25}, {1.15, 0.85}, {-1.15, 0.85}});
      break;
    case 3:
      shape({{0, -1.35}, {1.35, 0}, {0, 1.35}, {-1.35, 0}});
      break;
    default:
      shape({{0, 1.25}, {1.15, -0.85}, {-1.15, -0.85}});
      break;
  }
}

}  // namespace starling::lab
