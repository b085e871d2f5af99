// The project's sources as the rules read them: which files there are, their lines, and the same lines
// without comments and without the contents of literals, so that words in a comment break no rule.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace starling::architecture {

struct Source {
  std::string path;                // from the repository root, with '/'
  std::vector<std::string> lines;  // as code_of() leaves them
  std::vector<std::string> text;   // as they are
};

Source make_source(const std::string& path, std::string_view text);

// The lines of C++ text with every comment taken out and every string and character literal emptied. An
// #include's name is kept.
std::vector<std::string> code_of(std::string_view text);

// An #include of one of the project's own files: those in quotes.
struct Include {
  std::size_t line;  // from 1
  std::string name;
};
std::vector<Include> own_includes(const Source& source);

// Every C++ and CUDA file below `root`, sorted by path. Left out are top-level folders that are no source:
// hidden ones, build* and any other that CMake built in.
std::vector<Source> read_sources(const std::filesystem::path& root);

}  // namespace starling::architecture
