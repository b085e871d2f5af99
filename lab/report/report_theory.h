// What a run's topology predicts: its graph, and the consensus distance over time. Only the size of the
// prediction is fitted to the run; its shape follows from the topology.
#pragma once

#include "lab/report/report_data.h"

namespace starling::lab {

// Fills run.graph, run.graph_text, run.prediction and the predicted values of run.points.
void add_theory(ReportRun& run);

}  // namespace starling::lab
