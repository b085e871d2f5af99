// The project's source files with their lines, and the same lines without comments and contents of literals,
// so that words in a comment are not violations.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace starling::architecture {

struct Source {
  std::string path;                // from the repository root, with '/'
  std::vector<std::string> lines;  // the result of code_of()
  std::vector<std::string> text;   // unchanged
};

Source make_source(const std::string& path, std::string_view text);

// The lines of C++ text without comments and with empty string and character literals. The name of an
// #include is kept.
std::vector<std::string> code_of(std::string_view text);

// An #include of one of the project's own files, in quotes.
struct Include {
  std::size_t line;  // from 1
  std::string name;
};
std::vector<Include> own_includes(const Source& source);

// Every C++ and CUDA file below `root`, sorted by path. Skips top-level folders without sources: hidden ones,
// build* and other build folders of CMake.
std::vector<Source> read_sources(const std::filesystem::path& root);

}  // namespace starling::architecture
