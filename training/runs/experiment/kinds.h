// How a kind of run is written, which is the same in folders of a sweep, columns of CSV files and reports:
// the settings that differ, as "slow=10,rule=d-psgd".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling::training {

// The name of each key: its last part, "slow" for fault.1.slow, unless two of the keys would share it or it
// is the name of a result in a CSV file, such as seconds; then the key itself.
std::vector<std::string> short_names(const std::vector<std::string>& keys);

// "slow=10,rule=d-psgd". A name whose value is empty is left out. REQUIRES: as many values as names.
std::string kind_text(const std::vector<std::string>& names, const std::vector<std::string>& values);

// The text with '-' for characters that are not safe in the name of a file.
std::string file_name_of(std::string text);

// One cell of a CSV file (RFC 4180): in quotes if it contains a comma, a quote or a line break.
std::string csv_cell(const std::string& text);

}  // namespace starling::training
