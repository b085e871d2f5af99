// Initial inputs for the fuzz targets, made by our own encoders.
#pragma once

#include <filesystem>

namespace starling::fuzz {

// Writes FOLDER/TARGET/N.
void write_seeds(const std::filesystem::path& folder);

}  // namespace starling::fuzz
