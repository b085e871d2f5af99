// The well-known data sets that can be fetched: where they are published, and how their files are known.
// Sizes and SHA-256 are those that TensorFlow Datasets publishes for the same addresses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace starling::datasets {

struct PublishedFile {
  std::string name;
  std::uint64_t size = 0;  // bytes
  std::string sha256;      // 64 lower-case digits
  // An archive's: the files to be unpacked from it, beside it, under their last names; then it is removed.
  struct Member {
    std::string path;
    std::uint64_t size = 0;
  };
  std::vector<Member> members = {};
};

struct PublishedSet {
  std::string name;  // of the catalogue, and of its folder
  std::string base;  // the address that the files' names are put behind
  std::vector<PublishedFile> files;
};

const std::vector<PublishedSet>& published_sets();
// nullptr where none has that name.
const PublishedSet* find_published(const std::string& name);

// Files as a list of one's own tells them: lines "SHA256 SIZE NAME". The Error names the line.
Result<std::vector<PublishedFile>> parse_file_list(const std::string& text);

}  // namespace starling::datasets
