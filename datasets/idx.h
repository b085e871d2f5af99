// Reads the IDX format of the MNIST family: big-endian magic (0, 0, element type, number of dimensions), one
// 32-bit length per dimension, then the elements; plain or gzipped, told apart by the first bytes. Memory is
// taken as content arrives, never because a header says so. Every malformed file is an Error that names the
// file, what is wrong and what would be right.
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
  std::vector<std::uint32_t> lengths;  // of the dimensions, the outermost (the count of items) first
  std::vector<std::uint8_t> bytes;     // row-major
};

// A file of unsigned bytes with `dimensions` dimensions (1 to 3), each of length 1 to 2^27, the inner ones to
// 4096.
Result<IdxArray> read_idx(const std::string& path, int dimensions);

// Images and their labels. `classes` is the greatest label + 1; mean and deviation are left at 0 and 1.
Result<Dataset> read_idx_dataset(const std::string& images_path, const std::string& labels_path);

// The four files of an MNIST-like folder, each plain or with ".gz" (plain wins), normalised by the training
// images. The pair's name is the folder's.
Result<DataPair> read_idx_folder(const std::string& folder);

// Whether the folder holds at least one of the four files, so that read_idx_folder has something to say about
// it.
bool is_idx_folder(const std::string& folder);

}  // namespace starling::datasets
