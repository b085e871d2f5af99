// Reads the results of one or many runs from their folders.
// The first kind of run is the reference of speed-ups unless the options name another one.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lab/report/report_data.h"

namespace starling::lab {

// Each folder is that of a run, or contains the folders of runs. An Error names the file that is damaged and
// its problem.
Result<Report> read_report(const std::vector<std::string>& folders, const ReportOptions& options = {});

}  // namespace starling::lab
