// Networks from files: the command line reads them, and what goes on is a name and the layers as text, so
// that the run's record, its checkpoints, its peers and whoever joins later need no file.
#pragma once

#include <string>

#include "base/result.h"
#include "models/spec_text.h"

namespace starling::cli {

// The network of a file, where `name` ends in ".toml" (relative to the working folder); any other name as it
// is. A file that names no network gives it its own name, without the ".toml". An Error names the file and
// the line.
Result<models::ModelText> resolve_model(const std::string& name);

}  // namespace starling::cli
