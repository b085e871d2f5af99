// Reads tables of numbers as CSV (RFC 4180), plain or gzipped: a record a line, its cells parted by commas,
// semicolons or tabs (the first line tells: a tab in it wins, then a semicolon), one column of labels, every
// other column a feature. Cells are decimal numbers with a point, in quotes or not, and become 32-bit floats;
// labels are whole numbers from 0 to 255, each its own class. A byte-order mark of UTF-8, CRLF, spaces around
// cells, a missing newline at the end and empty last lines are accepted.
//
// The first line is a header where any of its cells holds something that is no number. The labels' column is
// the one that the caller names, by the header (exactly, else whatever the case) or by its number from 1;
// else the one called label, class, target or y (whatever the case; the first of these wins); else the last.
//
// Text is read in pieces and never held as a whole. Every malformed file is an Error that names the file, the
// line (from 1, as an editor counts), the column, what is wrong and what would be right.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "datasets/dataset.h"

namespace starling::datasets {

// One file for both sets. Of the first ten records one is for testing, of the next ten another, and so on,
// also of the last ones, which may be fewer: which of ten, a seed of this reader's own draws, the same for
// every file, so that neither sorted nor periodic files split badly. At least ten records are needed.
// `classes` counts the labels of both.
Result<DataPair> read_csv_file(const std::string& path, const std::string& label = "");

// A folder's train.csv and test.csv, which have the same columns, both with a header or both without.
Result<DataPair> read_csv_folder(const std::string& folder, const std::string& label = "");

// Whether the folder holds at least one of the two files, so that read_csv_folder has something to say about
// it.
bool is_csv_folder(const std::string& folder);

// Whether the path ends in .csv or .csv.gz, whatever the case.
bool is_csv_path(std::string_view path);

}  // namespace starling::datasets
