// The table of a report: which runs form a group, their names, and statistics over the seeds of each group.
// A group's time to target has a speed-up only if all of its runs reach the target.
#pragma once

#include <string>

#include "base/result.h"
#include "lab/report/report_data.h"

namespace starling::lab {

// Groups the runs, names groups and runs, and fills the groups' statistics.
Status tabulate(Report& report, const ReportOptions& options);

// A line per group, below the names of the columns.
std::string to_csv(const Report& report);

}  // namespace starling::lab
