// Reads arrays as NumPy saves them (numpy.lib.format, versions 1.0, 2.0 and 3.0), plain or gzipped:
//
//   93 'NUMPY' | major | minor | length of the header: 2 bytes, from version 2.0 on 4, little-endian
//   the header, a dictionary of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784), }
//   the elements, row-major
//
// Of the header any order and spacing is accepted, but no other key. Memory is taken as content arrives, or
// as much as a plain file is long, never because a header says so. Every malformed file is an Error that
// names the file, what is wrong and what would be right.
//
//   features  |u1, kept as bytes; <f4 and <f8, kept as 32-bit floats: all finite, also after that
//             [n, features]   a row a sample. Floats: {features, 1, 1}, normalized column by column. Bytes
//             are taken for
//                             gray pixels in a row: {1, 1, features}, one mean and deviation for all
//             [n, h, w]       gray images
//             [n, c, h, w]    images channel by channel, or
//             [n, h, w, c]    where c is 1, 3 or 4 and the second length is none of these; transposed here
//   labels    |u1, |i1 and <i or <u of 2, 4 or 8 bytes, [n] or [n, 1]: 0 to 255
#pragma once

#include <string>

#include "base/result.h"
#include "datasets/dataset.h"

namespace starling::datasets {

// Samples and their labels. `classes` is the greatest label + 1; mean and deviation are left at 0 and 1.
Result<Dataset> read_npy_dataset(const std::string& features_path, const std::string& labels_path);

// A folder's train_images.npy, train_labels.npy, test_images.npy and test_labels.npy, or, where it has none
// of these, x_train.npy, y_train.npy, x_test.npy and y_test.npy, each plain or with ".gz" (plain wins),
// normalized by the training samples. Training and test samples have one shape, and both are bytes or both
// floats.
Result<DataPair> read_npy_folder(const std::string& folder);

// Whether the folder holds at least one of these files, so that read_npy_folder has something to say about
// it.
bool is_npy_folder(const std::string& folder);

}  // namespace starling::datasets
