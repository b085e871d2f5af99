// Small IDX files, valid and invalid, in a temporary folder of the test, and the location of real MNIST.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "tests/catch.h"
#include "tests/contains.h"

namespace starling::datasets {

using FileBytes = std::vector<std::uint8_t>;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "starling-datasets-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name = "") const { return name.empty() ? path_ : path_ + "/" + name; }

  std::string write(const std::string& name, const FileBytes& bytes) const {
    std::ofstream(path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }
  std::string write_gzip(const std::string& name, const FileBytes& bytes) const {
    const gzFile file = gzopen(path(name).c_str(), "wb");
    REQUIRE(file != nullptr);
    REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
            static_cast<int>(bytes.size()));
    REQUIRE(gzclose(file) == Z_OK);
    return path(name);
  }

 private:
  std::string path_;
};

// Header and content of an IDX file of unsigned bytes.
inline FileBytes idx(const std::vector<std::uint32_t>& lengths, const FileBytes& content) {
  FileBytes bytes{0, 0, 8, static_cast<std::uint8_t>(lengths.size())};
  for (const std::uint32_t n : lengths)
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(n >> shift));
  bytes.insert(bytes.end(), content.begin(), content.end());
  return bytes;
}

// `count` images of 2x3 pixels: 0, 1, 2, ... in order.
inline FileBytes images(std::uint32_t count) {
  FileBytes content(count * 6);
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::uint8_t>(i);
  return idx({count, 2, 3}, content);
}

inline FileBytes labels(const FileBytes& values) {
  return idx({static_cast<std::uint32_t>(values.size())}, values);
}

// The folder of real data sets: $STARLING_DATA, or shared/data beside the checkout; nullopt if neither
// exists.
inline std::optional<std::string> real_data_root() {
  std::vector<std::string> candidates;
  if (const char* root = std::getenv("STARLING_DATA")) candidates.push_back(root);
  candidates.push_back(std::string(STARLING_SOURCE_DIR) + "/../shared/data");
  for (const auto& root : candidates)
    if (std::filesystem::is_directory(root + "/mnist")) return root;
  return std::nullopt;
}

}  // namespace starling::datasets
