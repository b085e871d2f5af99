// A report as one self-contained HTML page: style, script and data are in it. web/report.js draws the plots;
// the tables do not need it.
#pragma once

#include <string>

#include "base/result.h"
#include "lab/report/report_data.h"

namespace starling::lab {

std::string to_html(const Report& report);

// Writes the page of the results in `folder` to its report.html.
Status write_report(const std::string& folder);

}  // namespace starling::lab
