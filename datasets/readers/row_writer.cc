#include "datasets/readers/row_writer.h"

#include <cmath>

#include "datasets/description.h"

namespace starling::datasets {
namespace {

constexpr std::size_t kFirstRows = 4096, kFirstValues = std::size_t{1} << 20;
// A column with this ratio of mean to deviation loses two bits of a float's 24.
constexpr double kFarAway = 4;

}  // namespace

RowWriter::RowWriter(const Given& given) {
  if (given.of_model == nullptr || given.of_model->normalization.empty()) return;
  chosen_ = true;
  offsets_ = given.of_model->offsets;
}

void RowWriter::add(std::span<const double> row, Dataset& set) {
  if (chosen_) return append(row, set);
  first_.insert(first_.end(), row.begin(), row.end());
  owners_.push_back(&set);
  if (owners_.size() == kFirstRows || first_.size() >= kFirstValues) append_first(row.size());
}

void RowWriter::finish(Dataset& set) {
  if (!chosen_ && !owners_.empty()) append_first(first_.size() / owners_.size());
  set.offsets = offsets_;
}

void RowWriter::choose(std::size_t columns) {
  chosen_ = true;
  const auto rows = static_cast<double>(owners_.size());
  std::vector<double> offsets(columns);
  bool any = false;
  for (std::size_t c = 0; c < columns; ++c) {
    double sum = 0, squares = 0;
    bool exact = true;
    for (std::size_t at = c; at < first_.size(); at += columns) {
      sum += first_[at];
      exact = exact && static_cast<double>(static_cast<float>(first_[at])) == first_[at];
    }
    const double mean = sum / rows;
    for (std::size_t at = c; at < first_.size(); at += columns)
      squares += (first_[at] - mean) * (first_[at] - mean);
    if (exact || std::abs(mean) <= kFarAway * std::sqrt(squares / rows)) continue;
    offsets[c] = mean;
    any = true;
  }
  if (any) offsets_ = std::move(offsets);
}

void RowWriter::append(std::span<const double> row, Dataset& set) {
  if (offsets_.size() != row.size()) offsets_.clear();  // of a model with other columns, which does not fit
  const std::size_t at = set.features.size();
  set.features.resize(at + row.size());
  float* to = set.features.data() + at;
  if (offsets_.empty()) {
    for (std::size_t c = 0; c < row.size(); ++c) to[c] = static_cast<float>(row[c]);
  } else {
    for (std::size_t c = 0; c < row.size(); ++c) to[c] = static_cast<float>(row[c] - offsets_[c]);
  }
}

void RowWriter::append_first(std::size_t columns) {
  choose(columns);
  for (std::size_t i = 0; i < owners_.size(); ++i)
    append(std::span(first_).subspan(i * columns, columns), *owners_[i]);
  first_ = {};
  owners_ = {};
}

}  // namespace starling::datasets
