// The file of the running program. Files that are installed with it are found relative to it.
#pragma once

#include <filesystem>

namespace starling {

// Absolute, with symbolic links resolved. Empty where /proc is not mounted.
std::filesystem::path program_path();

}  // namespace starling
