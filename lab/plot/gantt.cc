#include "lab/plot/gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace starling::lab {
namespace {

using Entry = training::PipelineTrace::Entry;
using Pass = training::StageTask::Kind;

constexpr std::size_t kMostPasses = 80;  // of a row

// The steps of a replica from its entries, which are in the order of their times.
std::vector<GanttStep> steps_of(const std::vector<Entry>& entries) {
  std::vector<GanttStep> steps{{}};
  std::map<std::uint64_t, std::uint64_t> used;  // the version by micro-batch that is kept
  std::uint64_t version = 0;
  const auto add = [&](double seconds) {
    std::set<std::uint64_t> versions{version};
    for (const auto& [number, its] : used) versions.insert(its);
    if (steps.back().seconds < seconds) steps.push_back({seconds});
    steps.back().kept = used.size();
    steps.back().versions = versions.size();
  };
  for (const Entry& entry : entries) {
    switch (entry.work.task.kind) {
      case Pass::forward:
        used[entry.work.task.number] = entry.work.version;
        add(entry.begin);
        break;
      case Pass::backward:
        used.erase(entry.work.task.number);
        add(entry.end);
        break;
      case Pass::update:
        ++version;
        add(entry.end);
        break;
    }
  }
  return steps;
}

std::string gantt_text(const GanttChart& chart, const training::PipelineTrace& trace) {
  std::string text = fmt::format("{}. Gantt chart of the first {:.4g} s of {:.4g} s.", chart.title, chart.end,
                                 trace.seconds);
  for (std::size_t i = 0; i < chart.rows.size(); ++i) {
    const training::PipelineTrace::Replica& replica = trace.replicas[i];
    const double idle = trace.seconds > 0 ? 100 * (1 - replica.busy / trace.seconds) : 0;
    text += fmt::format(" {}: idle {:.0f} %, keeps at most {} micro-batch{} and {} version{} of its weights.",
                        chart.rows[i].label, idle, replica.most_in_flight,
                        replica.most_in_flight == 1 ? "" : "es", replica.most_versions,
                        replica.most_versions == 1 ? "" : "s");
  }
  if (chart.left_out > 0) text += fmt::format(" {} rows are left out.", chart.left_out);
  return text;
}

}  // namespace

GanttChart make_gantt(const training::PipelineTrace& trace, const std::string& name, double bubble) {
  GanttChart chart;
  chart.title = fmt::format("{}: bubble {:.1f} %", name, 100 * bubble);
  chart.end = trace.seconds;
  const std::size_t rows = std::min(trace.replicas.size(), kMostGanttRows);
  chart.left_out = trace.replicas.size() - rows;
  std::vector<std::vector<Entry>> entries(rows);
  for (const Entry& entry : trace.entries) {
    for (std::size_t row = 0; row < rows; ++row) {
      const training::PipelineTrace::Replica& replica = trace.replicas[row];
      if (replica.stage == entry.stage && replica.replica == entry.replica) entries[row].push_back(entry);
    }
  }
  for (const auto& its : entries)
    if (its.size() > kMostPasses) chart.end = std::min(chart.end, its[kMostPasses].begin);
  for (std::size_t row = 0; row < rows; ++row) {
    const training::PipelineTrace::Replica& it = trace.replicas[row];
    const bool several =
        it.replica > 0 || (row + 1 < trace.replicas.size() && trace.replicas[row + 1].stage == it.stage);
    GanttRow drawn{.label = several ? fmt::format("stage {}.{}", it.stage + 1, it.replica + 1)
                                    : fmt::format("stage {}", it.stage + 1),
                   .boxes = {},
                   .steps = steps_of(entries[row])};
    for (const Entry& entry : entries[row]) {
      const training::StageTask& task = entry.work.task;
      if (entry.begin >= chart.end || !(entry.end > entry.begin)) continue;
      drawn.boxes.push_back({task.kind, task.number, entry.begin, entry.end});
      chart.updates = chart.updates || task.kind == Pass::update;
    }
    std::erase_if(drawn.steps, [&](const GanttStep& step) { return step.seconds >= chart.end; });
    for (const GanttStep& step : drawn.steps) {
      chart.most_kept = std::max(chart.most_kept, step.kept);
      chart.most_versions = std::max(chart.most_versions, step.versions);
    }
    chart.rows.push_back(std::move(drawn));
  }
  chart.text = gantt_text(chart, trace);
  return chart;
}

}  // namespace starling::lab
