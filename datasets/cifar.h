// Reads the binary format of CIFAR-10 and CIFAR-100 (Krizhevsky, 2009): records without a header, each of the label's
// byte (CIFAR-100: a coarse label's and the fine one's, which counts here) and 3 x 32 x 32 bytes, the red plane first;
// plain or gzipped. A file holds any whole number of records.
//
//   CIFAR-10:   data_batch_1.bin to data_batch_5.bin, those that are there, and test_batch.bin
//   CIFAR-100:  train.bin and test.bin
//
// Memory is taken as content arrives. Every malformed file is an Error that names the file, the record, what is wrong
// and what would be right.
#pragma once

#include <string>

#include "base/result.h"
#include "datasets/dataset.h"

namespace starling::datasets {

struct CifarFormat {
  int label_bytes;  // before a record's pixels; the last one counts
  int classes;
};
inline constexpr CifarFormat kCifar10{1, 10}, kCifar100{2, 100};

// Appends a file's records to a set that is empty or of the same format. Neither an Error nor a set that is not empty
// loses what was there.
Result<Done> read_cifar(const std::string& path, const CifarFormat& format, Dataset& set);

// A folder of either, normalized by its training images. The pair's name is the folder's.
Result<DataPair> read_cifar_folder(const std::string& folder);

// Whether the folder holds at least one of the files, so that read_cifar_folder has something to say about it.
bool is_cifar_folder(const std::string& folder);

}  // namespace starling::datasets
