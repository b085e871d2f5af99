// A report as one HTML page that asks nobody for anything: style, script and data stand in it. Its plots are
// drawn by web/report.js; tables are there without it.
#pragma once

#include <string>

#include "lab/report/report.h"

namespace starling::lab {

std::string to_html(const Report& report);

// The page of the results in `folder`, as its report.html.
Status write_report(const std::string& folder);

}  // namespace starling::lab
