#include "datasets/readers/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "datasets/readers/class_names.h"
#include "datasets/readers/csv_columns.h"
#include "datasets/readers/csv_lines.h"
#include "datasets/readers/row_writer.h"

namespace starling::datasets {
namespace {

constexpr std::size_t kRecordsMax = std::size_t{1} << 27;
constexpr int kLabelMax = ClassNames::kMost;
constexpr std::size_t kTestEvery = 10;
constexpr std::uint64_t kSplitSeed = 10;
constexpr std::array kFiles = {"train.csv", "test.csv"};
constexpr double kWholeMax = 9007199254740992.0;  // 2^53: doubles have all whole numbers up to here

// As std::from_chars(), and several times as fast for numbers such as -12.25: a whole number up to 2^53
// divided by a power of ten up to 10^22, so that both are exact and the quotient is rounded once (Clinger,
// "How to read floating point numbers accurately", 1990, section 3).
std::from_chars_result read_number(const char* first, const char* end, double& value) {
  constexpr std::array kPowers = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  constexpr std::size_t kDigits = 15;  // 10^15 < 2^53
  const char* at = first;
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  const char* const digits = at;
  std::uint64_t whole = 0;
  const auto take = [&] {
    for (; at != end && static_cast<unsigned char>(*at - '0') < 10; ++at)
      whole = 10 * whole + static_cast<unsigned char>(*at - '0');
  };
  take();
  std::size_t count = static_cast<std::size_t>(at - digits), behind = 0;
  if (count > 0 && at != end && *at == '.') {
    const char* const fraction = ++at;
    take();
    behind = static_cast<std::size_t>(at - fraction);
    count += behind;
  }
  if (count == 0 || count > kDigits || (at != end && (*at == 'e' || *at == 'E')))
    return std::from_chars(first, end, value);
  const double number = static_cast<double>(whole) / kPowers[behind];
  value = negative ? -number : number;
  return {at, std::errc{}};
}

// Reads a file's records.
class Table {
 public:
  // `like`: a table that must have the same columns, or null.
  static Result<Table> open(const std::string& path, const CsvLabel& label, const Table* like,
                            ClassNames& classes, RowWriter& rows) {
    auto lines = CsvLines::open(path);
    if (!lines) return lines.error();
    Table table(std::move(*lines), "'" + path + "'", classes, rows);
    const auto first = table.lines_.next(true);
    if (!first) return first.error();
    if (!*first) return Error{table.file_ + " is empty; one record per line is needed"};
    if (is_blank(**first)) return table.empty_line(1);
    auto columns = read_csv_columns(table.file_, **first, label);
    if (!columns) return columns.error();
    table.columns_ = std::move(*columns);
    if (like) {
      if (const auto same = table.check_same(*like); !same) return same.error();
    }
    if (table.columns_.names.empty()) table.first_ = std::string(**first);
    table.row_.resize(table.columns_.count - 1);
    return table;
  }

  // choose(number from 0) returns the set for a record; `test` also gets its records' lines.
  template <class Choose>
  Status read(const Dataset& test, Choose&& choose) {
    test_ = &test;
    if (first_) {
      if (const auto read = read_record(*first_, choose(std::size_t{0})); !read) return read.error();
      records_ = 1;
    }
    std::size_t blank = 0;  // the number of the first empty line since the last record
    for (;;) {
      const auto line = lines_.next();
      if (!line) return line.error();
      if (!*line) break;
      if (is_blank(**line)) {
        if (blank == 0) blank = lines_.number();
        continue;
      }
      if (blank > 0) return empty_line(blank);
      if (records_ == kRecordsMax)
        return Error{file_ + " has more than the " + std::to_string(kRecordsMax) +
                     " records that are accepted"};
      Dataset& set = choose(records_);
      if (const auto read = read_record(**line, set); !read) return read.error();
      ++records_;
      reserve_rest(set);
    }
    if (records_ == 0)
      return Error{file_ + " contains no record after its header line; at least one is needed"};
    return Done{};
  }

  const std::string& file() const { return file_; }  // in quotes
  bool has_names() const { return has_names_; }      // as labels
  std::size_t records() const { return records_; }

  Origin origin() const {
    Origin origin{"CSV", columns_.called(columns_.label), columns_.names, classes_->in_order(),
                  columns_.decisions};
    origin.label_chosen = columns_.label_chosen;
    if (!origin.columns.empty())
      origin.columns.erase(origin.columns.begin() + static_cast<std::ptrdiff_t>(columns_.label));
    return origin;
  }

 private:
  Table(CsvLines lines, std::string file, ClassNames& classes, RowWriter& rows)
      : lines_(std::move(lines)), file_(std::move(file)), classes_(&classes), rows_(&rows) {}

  static bool is_blank(std::string_view line) {
    return line.find_first_not_of(' ') == std::string_view::npos;
  }

  Error empty_line(std::size_t number) const {
    return Error{file_ + ", line " + std::to_string(number) +
                 " is empty; lines may be empty only after the last record"};
  }

  Status check_same(const Table& like) const {
    const CsvColumns &mine = columns_, &theirs = like.columns_;
    if (mine.count != theirs.count)
      return Error{file_ + " has " + std::to_string(mine.count) + " columns, but " + like.file_ + " has " +
                   std::to_string(theirs.count) + "; both must have the same"};
    if (mine.names.empty() != theirs.names.empty()) {
      const bool has = theirs.names.empty();
      return Error{(has ? file_ : like.file_) + " has a header line, but " + (has ? like.file_ : file_) +
                   " has none: every cell of its first line is a number; both must have one, or neither"};
    }
    for (std::size_t i = 0; i < mine.names.size(); ++i) {
      if (mine.names[i] != theirs.names[i])
        return Error{file_ + " names column " + std::to_string(i + 1) + " '" + shown_csv(mine.names[i]) +
                     "', but " + like.file_ + " names it '" + shown_csv(theirs.names[i]) +
                     "'; both must have the same columns in the same order"};
    }
    return Done{};
  }

  // `wrong` continues the sentence after the column's name.
  Error bad_cell(std::size_t column, const std::string& wrong) const {
    return Error{file_ + ", line " + std::to_string(lines_.number()) + ", " + columns_.called(column) + " " +
                 wrong};
  }

  Error bad_feature(std::size_t column, CsvKind kind, std::string_view text) const {
    if (kind == CsvKind::empty)
      return bad_cell(column, "is empty; every cell must be a number: fill it in or remove the record");
    const std::string is = "is '" + shown_csv(text) + "'";
    if (kind == CsvKind::not_finite)
      return bad_cell(column, is + "; only finite numbers that fit into 32-bit floats are accepted");
    std::string pointed(text);
    std::replace(pointed.begin(), pointed.end(), ',', '.');
    double value = 0;
    if (pointed != text && classify_csv(pointed, value) == CsvKind::number)
      return bad_cell(column, is + ", but numbers are written with a point, as in " + pointed +
                                  ", and without separators of thousands");
    return bad_cell(column, is + ", which is not a number; every cell must be one, as in 1.5 or -2e-3");
  }

  Error bad_label(std::string_view text) const {
    return bad_cell(columns_.label, (text.empty() ? "is empty" : "is '" + shown_csv(text) + "'") +
                                        ", but a label is a whole number from 0 to " +
                                        std::to_string(kLabelMax) +
                                        ", or all labels are names; if the labels are in another column, "
                                        "select it, as in ':label=1'");
  }

  Error bad_count(std::string_view line) {
    const char* const end = line.data() + line.size();
    std::size_t cells = 1;
    for (const char* at = line.data();
         (at = take_csv_cell(at, end, columns_.delimiter, unquoted_).end) != end; ++at)
      ++cells;
    return Error{file_ + ", line " + std::to_string(lines_.number()) + " has " + std::to_string(cells) +
                 (cells == 1 ? " cell" : " cells") + ", but the first line has " +
                 std::to_string(columns_.count) + " (" +
                 (cells < columns_.count
                      ? columns_.called(cells) + " is missing"
                      : "one too many begins at column " + std::to_string(columns_.count + 1)) +
                 "); every record has a cell for each column"};
  }

  Status read_record(std::string_view line, Dataset& set) {
    const char* const end = line.data() + line.size();
    const char* at = line.data();
    double* to = row_.data();
    int label = 0;
    for (std::size_t column = 0;; ++column) {
      if (column == columns_.count) return bad_count(line);
      const char* stop = nullptr;
      if (column == columns_.label) {
        const auto read = read_label(at, end, label);
        if (!read) return read.error();
        stop = *read;
      } else {
        double value = 0;
        const auto [behind, error] = read_number(at, end, value);
        stop = behind;
        if (error != std::errc{} || (behind != end && *behind != columns_.delimiter) ||
            !std::isfinite(static_cast<float>(value))) {
          const CsvCell cell = take_csv_cell(at, end, columns_.delimiter, unquoted_);
          if (cell.wrong) return bad_cell(column, cell.wrong);
          const CsvKind kind = classify_csv(cell.text, value);
          if (kind == CsvKind::empty && column + 1 < columns_.count && cell.end == end)
            return bad_count(line);
          if (kind != CsvKind::number) return bad_feature(column, kind, cell.text);
          stop = cell.end;
        }
        if (std::abs(value) >= kWholeMax && !is_exact_csv({at, stop}, value))
          rows_->tell_inexact(static_cast<std::size_t>(to - row_.data()));
        *to++ = value;
      }
      if (stop == end) {
        if (column + 1 < columns_.count) return bad_count(line);
        break;
      }
      at = stop + 1;
    }
    rows_->add(row_, set);
    set.labels.push_back(static_cast<std::uint8_t>(label));
    if (&set == test_) set.lines.push_back(static_cast<std::uint32_t>(lines_.number()));
    set.classes = std::max(set.classes, label + 1);
    return Done{};
  }

  // The cell's end.
  Result<const char*> read_label(const char* at, const char* end, int& label) {
    const bool is_first = !std::exchange(classes_decided_, true);
    const bool begins = classes_->are_used() || is_first;
    const auto [behind, error] = std::from_chars(at, end, label);
    if (!classes_->are_used() && error == std::errc{} && (behind == end || *behind == columns_.delimiter) &&
        label >= 0 && label <= kLabelMax)
      return behind;
    const CsvCell cell = take_csv_cell(at, end, columns_.delimiter, unquoted_);
    if (cell.wrong) return bad_cell(columns_.label, cell.wrong);
    double value = 0;  // "3.0" is whole, too
    const CsvKind kind = classify_csv(cell.text, value);
    if (is_first) has_names_ = kind == CsvKind::text;
    if (begins && kind != CsvKind::empty && (classes_->are_used() || kind == CsvKind::text)) {
      const auto number = classes_->number_of(cell.text);
      if (!number)
        return bad_cell(columns_.label, "is class number " + std::to_string(kLabelMax + 2) + "; at most " +
                                            std::to_string(kLabelMax + 1) + " are accepted");
      label = *number;
      return cell.end;
    }
    if (kind != CsvKind::number || value < 0 || value > kLabelMax || value != std::floor(value))
      return bad_label(cell.text);
    label = static_cast<int>(value);
    return cell.end;
  }

  // Reserves the memory that the rest of a plain file will need, estimated from its first records.
  void reserve_rest(Dataset& set) {
    constexpr std::size_t kShown = 4096;  // records
    const auto length = lines_.length();
    if (!length || set.size() != kShown) return;
    const double left = static_cast<double>(*length) / static_cast<double>(lines_.consumed());
    const auto expected = static_cast<std::size_t>(static_cast<double>(kShown) * left * 1.01);
    set.features.reserve(expected * (columns_.count - 1));
    set.labels.reserve(expected);
  }

  CsvLines lines_;
  std::string file_;
  CsvColumns columns_;
  std::optional<std::string> first_;  // the first line, if it is a record
  std::size_t records_ = 0;
  std::string unquoted_;
  ClassNames* classes_;
  RowWriter* rows_;
  const Dataset* test_ = nullptr;
  std::vector<double> row_;       // the features of a record
  bool classes_decided_ = false;  // the first label says whether labels are names
  bool has_names_ = false;        // they are
};

void finish(Dataset& set, RowWriter& rows) {
  rows.finish(set);
  // Shrinking copies, so small excesses of reserve_rest() stay.
  if (set.features.capacity() / 8 * 7 > set.features.size()) {
    set.features.shrink_to_fit();
    set.labels.shrink_to_fit();
  }
  if (set.size() > 0) set.shape = {static_cast<int>(set.features.size() / set.size()), 1, 1};
}

}  // namespace

Result<DataPair> read_csv_file(const std::string& path, const std::string& label, const Given& given) {
  ClassNames classes;
  RowWriter rows(given);
  auto table = Table::open(path, {label, given}, nullptr, classes, rows);
  if (!table) return table.error();
  Dataset train, test;
  const Random random(kSplitSeed);
  std::size_t ten = 0, drawn = random.split(0).below(kTestEvery);
  const auto read = table->read(test, [&](std::size_t record) -> Dataset& {
    if (record / kTestEvery != ten) {
      ten = record / kTestEvery;
      drawn = random.split(ten).below(kTestEvery);
    }
    return record % kTestEvery == drawn ? test : train;
  });
  if (!read) return read.error();
  if (table->records() < kTestEvery)
    return Error{table->file() + " has " + std::to_string(table->records()) + " records; at least " +
                 std::to_string(kTestEvery) +
                 " are needed, because one in ten is for testing; or a folder with " + kFiles[0] + " and " +
                 kFiles[1]};
  train.classes = std::max(train.classes, test.classes);
  for (Dataset* set : {&train, &test}) {
    finish(*set, rows);
    classes.put_in_order(*set);
  }
  Origin origin = table->origin();
  origin.decisions.emplace_back("one record in ten is for testing");
  rows.tell_merged(origin);
  return join(data_name(path), path, std::move(train), std::move(test), std::move(origin));
}

namespace {

// An Error if labels are names in one part and numbers in the other.
Status check_labels(const Table& train, const Table& test) {
  if (train.has_names() == test.has_names()) return Done{};
  return Error{train.file() + " has " + (train.has_names() ? "names" : "numbers") + " as labels, but " +
               test.file() + " has " + (test.has_names() ? "names" : "numbers")};
}

}  // namespace

Result<DataPair> read_csv_folder(const std::string& folder, const std::string& label, const Given& given) {
  const auto paths = find_files(folder, std::span(kFiles).last(given.only_test ? 1 : 2));
  if (!paths) return paths.error();
  ClassNames classes;
  RowWriter rows(given);
  std::vector<Table> tables;
  for (const std::string& path : *paths) {
    auto table = Table::open(path, {label, given}, tables.empty() ? nullptr : tables.data(), classes, rows);
    if (!table) return table.error();
    tables.push_back(std::move(*table));
  }
  std::array<Dataset, 2> parts;  // the test part is read first
  for (std::size_t i = 0; i < tables.size(); ++i) {
    Dataset& part = parts[i];
    if (const auto read =
            tables[tables.size() - 1 - i].read(parts[0], [&](std::size_t) -> Dataset& { return part; });
        !read)
      return read.error();
    finish(part, rows);
  }
  if (tables.size() == 2) {
    if (const Status alike = check_labels(tables[0], tables[1]); !alike) return alike.error();
  }
  for (Dataset& part : parts) classes.put_in_order(part);
  Origin origin = tables.front().origin();
  for (const char* name : kFiles)
    if (auto path = find_file(folder, name)) origin.files.push_back(std::move(*path));
  rows.tell_merged(origin);
  return join(data_name(folder), folder, std::move(parts[1]), std::move(parts[0]), std::move(origin));
}

bool is_csv_folder(const std::string& folder) { return has_one_of(folder, kFiles); }

bool is_csv_path(std::string_view path) { return has_ending(path, {".csv", ".tsv"}); }

}  // namespace starling::datasets
