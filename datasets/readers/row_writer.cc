#include "datasets/readers/row_writer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "datasets/description.h"

namespace starling::datasets {
namespace {

constexpr std::size_t kFirstRows = 4096, kFirstValues = std::size_t{1} << 20;
constexpr std::size_t kRowsCompared = 16'384;  // of which tell_merged() tells
// A column with a greater ratio of mean to deviation loses digits of the standardized values.
constexpr double kFarAway = 1;

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
  for (std::size_t c = 0; c < row.size(); ++c) {
    const double offset = offsets_.empty() ? 0 : offsets_[c];
    to[c] = static_cast<float>(row[c] - offset);
  }
  if (compared_ < kRowsCompared) compare(row);
}

void RowWriter::compare(std::span<const double> row) {
  if (columns_.size() != row.size()) columns_.assign(row.size(), {});
  ++compared_;
  for (std::size_t c = 0; c < row.size(); ++c) {
    Column& column = columns_[c];
    if (row[c] == column.last) continue;
    const double offset = offsets_.empty() ? 0 : offsets_[c];
    ++column.changes;
    if (static_cast<float>(column.last - offset) == static_cast<float>(row[c] - offset)) ++column.lost;
    column.last = row[c];
  }
}

namespace {

// "'id', 'time' and 3 more have"; empty without columns.
std::string columns_that_have(const std::vector<std::size_t>& columns, const Origin& origin) {
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, columns.size()); ++i)
    text += (i > 0 ? ", " : "") + (columns[i] < origin.columns.size()
                                       ? "'" + origin.columns[columns[i]] + "'"
                                       : "feature " + std::to_string(columns[i] + 1));
  if (columns.size() > kMost) text += " and " + std::to_string(columns.size() - kMost) + " more";
  return text.empty() ? text : text + (columns.size() == 1 ? " has" : " have");
}

}  // namespace

void RowWriter::tell_merged(Origin& origin) const {
  std::vector<std::size_t> merged;
  for (std::size_t c = 0; c < columns_.size(); ++c)
    if (columns_[c].lost > 0 && columns_[c].lost * 100 >= columns_[c].changes) merged.push_back(c);
  const std::string fine = columns_that_have(merged, origin),
                    whole = columns_that_have({inexact_.begin(), inexact_.end()}, origin);
  if (!fine.empty())
    origin.decisions.push_back(fine +
                               " steps that are finer than 32-bit floats, so different numbers become equal");
  if (!whole.empty())
    origin.decisions.push_back(whole + " whole numbers beyond 2^53, whose last digits are lost");
}

void RowWriter::append_first(std::size_t columns) {
  choose(columns);
  for (std::size_t i = 0; i < owners_.size(); ++i)
    append(std::span(first_).subspan(i * columns, columns), *owners_[i]);
  first_ = {};
  owners_ = {};
}

}  // namespace starling::datasets
