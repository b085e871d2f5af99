// The files that this process has read and that the user would lose if an output replaced them: data,
// tokenizers, models, experiments, the results that a report shows. The writer of files
// (training/runs/records/files.h) refuses to replace one. Any thread may call this.
#pragma once

#include <optional>
#include <string>

namespace starling::datasets {

// The file at `path` was opened to be read.
void note_input(const std::string& path);

// The path under which the file at `path` was read, by device and inode: through a link or another path, too.
// Nothing if there is no such file, or if another one has taken the input's place since.
std::optional<std::string> input_at(const std::string& path);

}  // namespace starling::datasets
