// Reads tables of numbers as CSV (RFC 4180), plain or gzipped: one record per line, one column of labels, all
// other columns features. The delimiter is a tab if the first line has one, else a semicolon if it has one,
// else a comma. Cells are decimal numbers with a point, quoted or not, and become 32-bit floats
// (row_writer.h); labels are whole numbers from 0 to 255, or all of them names, which become numbers in their
// order. A byte-order mark of UTF-8, CRLF, spaces around cells, a missing newline at the end and empty last
// lines are accepted.
//
// The first line is a header if one of its cells is not a number, unless this is only the name of a class in
// the column of labels. A line 0,1,2 or 1,2,3 and so on, of at least three cells, is a header, too, also
// behind an empty cell.
//
// The column of labels is the one that the caller names, by its number from 1 or by the header (exactly, else
// ignoring case); else the one of the data of the model that is given, by its name or, where one of both has
// no header, by its number; else the one named label, class, target or y (ignoring case, in this order); else
// the last.
//
// Text is read in pieces. The Error of a malformed file names the file, the line (from 1), the column, what
// is wrong and what would be right.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "datasets/dataset.h"

namespace starling::datasets {

// Reads both sets from one file. One record of every ten is for testing; which one is drawn from a fixed
// seed, so that neither sorted nor periodic files split badly. At least ten records are needed. `classes`
// counts the labels of both sets.
Result<DataPair> read_csv_file(const std::string& path, const std::string& label = "",
                               const Given& given = {});

// Reads a folder's train.csv and test.csv. Both have the same columns, and both or neither have a header.
Result<DataPair> read_csv_folder(const std::string& folder, const std::string& label = "",
                                 const Given& given = {});

// Whether the folder contains at least one of the two files; read_csv_folder then names the missing one.
bool is_csv_folder(const std::string& folder);

// Whether the path ends in .csv or .csv.gz, ignoring case.
bool is_csv_path(std::string_view path);

}  // namespace starling::datasets
