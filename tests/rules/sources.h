// The text of the project's own files, for tests that compare documents with tables.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "base/check.h"

namespace starling {

// `path` is relative to the repository's root.
inline std::string source_text(const std::string& path) {
  std::ifstream file(std::string(STARLING_SOURCE_DIR) + "/" + path, std::ios::binary);
  STARLING_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace starling
