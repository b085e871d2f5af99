// What a folder has beside the files that its reader read.
#pragma once

#include <string>
#include <vector>

namespace starling::datasets {

// "not read in 'photos': extra/, notes.txt and 3 more", for a decision; empty if everything was read. Names
// that begin with a dot do not count. `read`: the paths of all files that were read.
std::string unread_in(const std::string& folder, const std::vector<std::string>& read);

}  // namespace starling::datasets
