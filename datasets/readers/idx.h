// Reads the IDX format of the MNIST family: big-endian magic (0, 0, element type, number of dimensions), one
// 32-bit length per dimension, then the elements; plain or gzipped. Memory grows with the content, whatever a
// header promises. The Error of a malformed file names the file, what is wrong and what would be right.
//
//   images:  00 00 08 03 | count | height | width | count * height * width bytes
//   labels:  00 00 08 01 | count | count bytes
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"

namespace starling::datasets {

struct IdxArray {
  std::vector<std::uint32_t> lengths;  // of the dimensions; the first one is the number of items
  std::vector<std::uint8_t> bytes;     // row-major
};

// Reads unsigned bytes in `dimensions` dimensions (1 to 3). Lengths are 1 to 2^27, inner ones 1 to 4096.
Result<IdxArray> read_idx(const std::string& path, int dimensions);

// Reads images and their labels. `classes` is the greatest label + 1; mean and deviation are left at 0 and 1.
Result<Dataset> read_idx_dataset(const std::string& images_path, const std::string& labels_path);

// Reads the four files of an MNIST-like folder, each plain or with ".gz" (plain has priority), normalized by
// the training images. The pair's name is the folder's.
Result<DataPair> read_idx_folder(const std::string& folder, const Given& given = {});

// Whether the folder contains at least one of the four files; read_idx_folder then names the missing ones.
bool is_idx_folder(const std::string& folder);

}  // namespace starling::datasets
