// What commands print: warnings, and a run's summary for people. JSON is in cli/json.h.
#pragma once

#include <string>

#include "training/records/record.h"

namespace starling::cli {

// A warning in the log (cli/log.h); an empty one is none.
void warn(const std::string& sentence);

// A run's outcome for people: accuracy, cost, a line a peer, and where the results lie.
std::string summary_text(const training::Summary& summary, const std::string& folder);

// "1.5 kB", "47 MB": decimal, three digits.
std::string format_bytes(double bytes);
std::string format_count(double count);  // "12", "1.5 k", "47 M"

}  // namespace starling::cli
