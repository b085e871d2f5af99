// The files of web/, embedded when the program was built (cmake/Embed.cmake).
// Two files that belong together are concatenated.
#pragma once

#include <string_view>

namespace starling::lab {

std::string_view report_template();  // report.html
std::string_view report_style();     // page.css, report.css
std::string_view report_script();    // plots.js, pipelines.js, report.js

}  // namespace starling::lab
