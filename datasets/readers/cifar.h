// Reads the binary format of CIFAR-10 and CIFAR-100 (Krizhevsky, 2009), plain or gzipped: records without a
// header, each of a label byte (CIFAR-100: a coarse and a fine label; the fine one is used) and 3 x 32 x 32
// bytes, the red plane first. A file contains any whole number of records.
//
//   CIFAR-10:   data_batch_1.bin to data_batch_5.bin, at least one of them, and test_batch.bin
//   CIFAR-100:  train.bin and test.bin
//
// Memory grows with the content. The Error of a malformed file names the file, the record, what is wrong and
// what would be right.
#pragma once

#include <string>

#include "base/result.h"
#include "datasets/dataset.h"

namespace starling::datasets {

struct CifarFormat {
  int label_bytes;  // before a record's pixels; the last one is the label
  int classes;
};
inline constexpr CifarFormat kCifar10{1, 10}, kCifar100{2, 100};

// Appends a file's records to a set that is empty or has the same format. An Error leaves the set as it was.
Result<Done> read_cifar(const std::string& path, const CifarFormat& format, Dataset& set);

// Reads a folder of either format, normalized by its training images. The pair's name is the folder's.
Result<DataPair> read_cifar_folder(const std::string& folder, const Given& given = {});

// Whether the folder contains at least one of the files; read_cifar_folder then names the missing ones.
bool is_cifar_folder(const std::string& folder);

}  // namespace starling::datasets
