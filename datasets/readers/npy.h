// Reads arrays as NumPy saves them (numpy.lib.format, versions 1.0, 2.0 and 3.0), plain or gzipped:
//
//   93 'NUMPY' | major | minor | length of the header: 2 bytes, from version 2.0 on 4, little-endian
//   the header, a dictionary of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784), }
//   the elements, row-major
//
// The keys may have any order and spacing; other keys are an error. Memory grows with the content or with a
// plain file's length, whatever a header promises. The Error of a malformed file names the file, what is
// wrong and what would be right.
//
//   features  |u1, <f4 and <f8, which must be finite. Images of |u1 are stored as bytes, all others as 32-bit
//             floats
//             [n, features]   one row per sample, {features, 1, 1}, normalized column by column, also of |i1
//                             and <i or <u of 2, 4 or 8 bytes
//             [n, h, w]       gray images
//             [n, c, h, w]    images channel by channel, or
//             [n, h, w, c]    which the reader transposes
//
// The option ":channels=first" or ":channels=last" says which of the latter two it is. Without it only one of
// c and the other length there may be 1, 3 or 4, which decides it, or the shape of the model's samples does.
// All lengths but the first are the same in both parts.
//
//   labels    |u1, |i1 and <i or <u of 2, 4 or 8 bytes, [n] or [n, 1]: 0 to 255
#pragma once

#include <string>

#include "base/result.h"
#include "datasets/dataset.h"
#include "datasets/path_options.h"

namespace starling::datasets {

// Reads samples and their labels. `classes` is the greatest label + 1; mean and deviation are left at 0
// and 1.
Result<Dataset> read_npy_dataset(const std::string& features_path, const std::string& labels_path,
                                 const PathOptions& options = {});

// Reads a folder's train_images.npy, train_labels.npy, test_images.npy and test_labels.npy or, if it has none
// of these, x_train.npy, y_train.npy, x_test.npy and y_test.npy, each plain or with ".gz" (plain has
// priority), normalized by the training samples. Training and test samples must have the same shape and type.
Result<DataPair> read_npy_folder(const std::string& folder, const PathOptions& options = {},
                                 const Given& given = {});

// Whether the folder contains at least one of these files; read_npy_folder then names the missing ones.
bool is_npy_folder(const std::string& folder);

}  // namespace starling::datasets
