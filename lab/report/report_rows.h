// The time lines of a report, from a run's timeline.jsonl: what each peer does when, in columns of equal
// length. Of many peers, the slowest, the fastest and an even selection of the others are shown.
#pragma once

#include <string>

#include "base/result.h"
#include "lab/report/report_data.h"

namespace starling::lab {

// Fills run.rows from the text of a timeline.jsonl. An Error begins with `path`.
Status read_rows(ReportRun& run, const std::string& text, const std::string& path);

}  // namespace starling::lab
