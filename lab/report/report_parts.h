// The steps of read_report(), a file each; of no concern to anybody else.
#pragma once

#include <string>
#include <vector>

#include "lab/report/report.h"

namespace starling::lab {

// Fills run.rows from the text of a timeline.jsonl (report_rows.cc). `path` begins an error.
Status read_rows(ReportRun& run, const std::string& text, const std::string& path);

// Fills run.graph and what is predicted of its consensus distance (report_theory.cc).
void add_theory(ReportRun& run);

// Groups the runs, names groups and runs, and fills the table (report_table.cc).
Status tabulate(Report& report, const ReportOptions& options);

}  // namespace starling::lab
