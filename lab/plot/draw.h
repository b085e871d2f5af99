// Draws figures, topologies and pipelines for a paper: text in the size of the paper, nothing clipped, kinds
// told apart by color, dashes and markers.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lab/plot/canvas.h"
#include "lab/plot/figure.h"
#include "lab/plot/gantt.h"
#include "topologies/schedule.h"

namespace starling::lab {

// The document; an SVG or a PDF has a title, and the caption as its description. An Error if text and axes do
// not fit on the paper; it says what to change.
Result<std::string> draw_figure(const PaperFigure& figure, const Paper& paper);

// Figures side by side with the same kinds, whose legend is at the right, and with lines of text below them;
// in an SVG also a title for screen readers.
struct FigureSheet {
  std::string title;
  std::vector<PaperFigure> figures;
  std::vector<std::string> caption;  // lines
};
// REQUIRES: there is a figure, and all have the same labels.
Result<std::string> draw_sheet(const FigureSheet& sheet, const Paper& paper);

// The drawing of `topology show --format svg` without title and caption: a panel for each round of a
// time-varying topology. `name`: chooses the layout. Nodes have numbers if there is room for them. The height
// of the paper is set to the drawing's unless `keep_height`.
Result<std::string> draw_topology(const topologies::Schedule& schedule, const std::string& name, Paper paper,
                                  bool keep_height);

// The height of the paper is set to the chart's. Idle time is what no box covers; below each row is what the
// replica keeps. An SVG has a title and a description for screen readers.
Result<std::string> draw_gantt(const GanttChart& chart, Paper paper);

}  // namespace starling::lab
