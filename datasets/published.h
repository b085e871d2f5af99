// The well-known data sets that can be downloaded, with their addresses and the sizes and SHA-256 of their
// files. TensorFlow Datasets publishes the latter for the same addresses, except for shakespeare, whose
// figures come from the file at the address.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace starling::datasets {

struct PublishedFile {
  std::string name;
  std::uint64_t size = 0;  // bytes
  std::string sha256;      // 64 lower-case digits
  // If it is an archive: the files to unpack next to it, under their last names. The archive is then removed.
  struct Member {
    std::string path;
    std::uint64_t size = 0;
  };
  std::vector<Member> members = {};
};

struct PublishedSet {
  std::string name;  // in the catalogue; also the name of its folder
  std::string base;  // the address to which the files' names are appended
  std::vector<PublishedFile> files;
};

const std::vector<PublishedSet>& published_sets();
// Null if no set has that name.
const PublishedSet* find_published(const std::string& name);

// Parses a user's list of files: lines "SHA256 SIZE NAME". The Error names the line.
Result<std::vector<PublishedFile>> parse_file_list(const std::string& text);

}  // namespace starling::datasets
