// Stores rows of numbers, read as doubles, as 32-bit floats. A column whose values are far from zero compared
// with their differences (seconds since 1970, identifiers, years with fractions) would lose digits, so its
// first values' mean is subtracted from all of them before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "datasets/dataset.h"

namespace starling::datasets {

class RowWriter {
 public:
  // With `given.of_model` the model's offsets are subtracted.
  explicit RowWriter(const Given& given);

  // Appends the row to set.features; the first rows are kept until finish() or until there are enough of them
  // to choose the offsets. REQUIRES: the set is at the same address until finish(set); all rows are equally
  // long.
  void add(std::span<const double> row, Dataset& set);
  // After the last row of this set: gives it its offsets.
  void finish(Dataset& set);
  // The reader found a whole number in this column that a double cannot hold.
  void tell_inexact(std::size_t column) { inexact_.insert(column); }
  // After the last finish(): decisions if there are such columns, or columns whose steps are finer than
  // 32-bit floats, so that one in a hundred or more of their changes from row to row is lost. The latter goes
  // by the first rows.
  void tell_merged(Origin& origin) const;

 private:
  struct Column {
    double last = 0;
    std::uint64_t changes = 0, lost = 0;  // rows that differ from the one before, and those stored as equal
  };
  void choose(std::size_t columns);
  void append(std::span<const double> row, Dataset& set);
  void compare(std::span<const double> row);  // with the one before
  void append_first(std::size_t columns);

  bool chosen_ = false;
  std::vector<double> offsets_;   // [columns]; empty: nothing is subtracted
  std::vector<double> first_;     // the rows before the choice
  std::vector<Dataset*> owners_;  // of each of them
  std::vector<Column> columns_;
  std::set<std::size_t> inexact_;  // columns
  std::size_t compared_ = 0;
};

}  // namespace starling::datasets
