// What commands print: logs on standard error, and a run's summary for people. JSON is in cli/json.h.
#pragma once

#include <string>

#include "training/record.h"

namespace starling::cli {

// Every log line of the process goes to standard error, so that standard output holds results alone.
void log_to_standard_error();

// A warning among them; an empty one is none.
void warn(const std::string& sentence);

// A run's outcome for people: accuracy, cost, a line a peer, and where the results lie.
std::string summary_text(const training::Summary& summary, const std::string& folder);

// "1.5 kB", "47 MB": decimal, three digits.
std::string format_bytes(double bytes);
std::string format_count(double count);  // "12", "1.5 k", "47 M"

}  // namespace starling::cli
