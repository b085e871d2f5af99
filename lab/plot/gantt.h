// The Gantt chart of a pipeline as a value: a row for each replica of each stage, with its passes and updates
// as boxes, and what it keeps over time. draw_gantt() (draw.h) draws it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "training/planner/timing.h"

namespace starling::lab {

struct GanttBox {
  training::StageTask::Kind kind = training::StageTask::Kind::forward;
  std::uint64_t number = 0;   // of the micro-batch, or of the update
  double begin = 0, end = 0;  // seconds
};

// What a replica keeps from `seconds` on.
struct GanttStep {
  double seconds = 0;
  std::size_t kept = 0;      // micro-batches whose activations it keeps
  std::size_t versions = 1;  // of its weights
};

struct GanttRow {
  std::string label;  // "stage 2", "stage 1.3"
  std::vector<GanttBox> boxes;
  std::vector<GanttStep> steps;
};

struct GanttChart {
  std::string title;
  std::string text;  // what the chart shows, for those who cannot see it
  std::vector<GanttRow> rows;
  double end = 0;  // seconds that are shown, from 0
  std::size_t most_kept = 0, most_versions = 1;
  bool updates = false;      // whether any takes time
  std::size_t left_out = 0;  // rows
};

inline constexpr std::size_t kMostGanttRows = 32;

// The rows of the trace's first kMostGanttRows replicas. Of a long trace the beginning, so that passes are
// wide enough to be seen. `name` begins the title; `bubble` is the share of idle time in it.
GanttChart make_gantt(const training::PipelineTrace& trace, const std::string& name, double bubble);

}  // namespace starling::lab
