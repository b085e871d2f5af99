// A sheet of paper to draw on, kept as an SVG, PDF or PNG document in memory. Lengths are in points, from the
// upper left corner. The .cc file is the only code that uses Cairo.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topologies/drawings/layout.h"

namespace starling::lab {

enum class PaperFormat { svg, pdf, png };

inline constexpr double kPointsPerInch = 72;

struct Paper {
  double width = 3.3, height = 2.3;  // inches
  double font = 8;                   // points
  std::string family = "sans-serif";
  PaperFormat format = PaperFormat::pdf;
  double dpi = 300;  // of a PNG
};

struct Pen {
  std::string_view color = "#000000";  // "#rrggbb"
  double width = 0.6;
  std::span<const double> dashes = {};  // lengths of dashes and gaps
  double opacity = 1;
};

enum class Anchor { start, middle, end };

struct Lettering {
  Anchor anchor = Anchor::start;
  double degrees = 0;  // counterclockwise around the place
  std::string_view color = "#222222";
  std::string_view exponent = {};  // raised behind the text, smaller
};

using Spot = topologies::Point;

class Canvas {
 public:
  explicit Canvas(const Paper& paper);
  ~Canvas();
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  // Of the sheet, or of the frame.
  double width() const { return size_.x; }
  double height() const { return size_.y; }
  double font() const { return paper_.font; }

  // From here on lengths are from this corner of the sheet, and width() and height() are `size`.
  void frame(const Spot& corner, const Spot& size);
  // A title and a text for screen readers, of an SVG or a PDF; a PNG has none.
  void describe(std::string title, std::string text);

  double text_width(std::string_view text, std::string_view exponent = {}) const;
  // The text stands on the place: its baseline passes through it.
  void text(const Spot& at, std::string_view text, const Lettering& lettering = {});
  // From the baseline to the middle of digits and capitals.
  double text_middle() const { return 0.36 * paper_.font; }

  void line(std::span<const Spot> spots, const Pen& pen);
  void curve(const Spot& from, const Spot& control, const Spot& to, const Pen& pen);  // quadratic
  void fill(std::span<const Spot> corners, std::string_view color, double opacity = 1);
  void circle(const Spot& middle, double radius, std::string_view fill, const Pen& pen);
  void polygon(std::span<const Spot> corners, std::string_view fill, const Pen& pen);

  // The document. An Error if it could not be drawn: it is too large, or a text is not UTF-8.
  Result<std::string> finish();

 private:
  struct Sheet;
  std::string text_element(const Spot& at, std::string_view text, const Lettering& lettering, double width,
                           double begin) const;
  Paper paper_;
  Spot corner_{}, size_;
  std::string title_, description_;
  std::string texts_;  // elements of an SVG
  std::string document_;
  std::unique_ptr<Sheet> sheet_;
};

}  // namespace starling::lab
