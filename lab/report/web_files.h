// The files of web/, as they were when the program was built (cmake/Embed.cmake).
#pragma once

#include <string_view>

namespace starling::lab {

std::string_view report_template();  // report.html
std::string_view report_style();     // page.css, report.css
std::string_view report_script();    // plots.js, report.js

}  // namespace starling::lab
