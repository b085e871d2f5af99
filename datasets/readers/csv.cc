#include "datasets/readers/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "datasets/readers/class_names.h"
#include "datasets/readers/csv_lines.h"
#include "datasets/readers/row_writer.h"

namespace starling::datasets {
namespace {

constexpr std::size_t kColumnsMax = std::size_t{1} << 20;
constexpr std::size_t kRecordsMax = std::size_t{1} << 27;
constexpr int kLabelMax = ClassNames::kMost;
constexpr std::size_t kTestEvery = 10;
constexpr std::uint64_t kSplitSeed = 10;
constexpr std::array kFiles = {"train.csv", "test.csv"};

// Text from a file for a message: short, and without control characters.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  std::string part(text.substr(0, kMost));
  if (text.size() > kMost) {
    if (continues(text[kMost])) {  // in the middle of a character of UTF-8
      while (!part.empty() && continues(part.back())) part.pop_back();
      if (!part.empty()) part.pop_back();
    }
    part += "...";
  }
  for (char& c : part)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return part;
}

// ---- cells ----

struct Cell {
  std::string_view text;
  const char* end;              // the delimiter after it, or the line's end
  const char* wrong = nullptr;  // the error in its quotes, if there is one
};

bool is_space(char c, char delimiter) { return c == ' ' || (c == '\t' && delimiter != '\t'); }

// The cell at `begin`, without the spaces around it and its quotes. `unquoted` receives the text if it has
// doubled quotes.
Cell take_cell(const char* begin, const char* end, char delimiter, std::string& unquoted) {
  while (begin < end && is_space(*begin, delimiter)) ++begin;
  if (begin == end || *begin != '"') {
    const char* stop = std::find(begin, end, delimiter);
    const char* last = stop;
    while (last > begin && is_space(last[-1], delimiter)) --last;
    return {{begin, last}, stop};
  }
  ++begin;
  const char* close = begin;
  bool doubled = false;
  for (;; ++close) {
    if (close == end) return {{begin, end}, end, "opens a quote that is not closed on its line"};
    if (*close != '"') continue;
    if (close + 1 == end || close[1] != '"') break;
    doubled = true;
    ++close;
  }
  Cell cell{{begin, close}, close + 1};
  while (cell.end < end && is_space(*cell.end, delimiter)) ++cell.end;
  if (cell.end < end && *cell.end != delimiter) {
    cell.wrong = "has text after its closing quote";
    cell.end = std::find(cell.end, end, delimiter);
  }
  if (doubled) {
    unquoted.clear();
    for (std::size_t i = 0; i < cell.text.size(); ++i) {
      unquoted += cell.text[i];
      if (cell.text[i] == '"') ++i;
    }
    cell.text = unquoted;
  }
  while (!cell.text.empty() && cell.text.front() == ' ') cell.text.remove_prefix(1);
  while (!cell.text.empty() && cell.text.back() == ' ') cell.text.remove_suffix(1);
  return cell;
}

enum class Kind { kNumber, kEmpty, kText, kNotFinite };

// Classifies a cell's text; `value` receives the number.
Kind classify(std::string_view text, double& value) {
  if (text.empty()) return Kind::kEmpty;
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return Kind::kText;
  // Too large, which is rejected, or too close to zero, which is zero.
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(text).c_str(), nullptr);
  return std::isfinite(static_cast<float>(value)) ? Kind::kNumber : Kind::kNotFinite;
}

// ---- tables ----

struct Columns {
  char delimiter = ',';
  std::vector<std::string> names;  // empty if the file has no header
  std::size_t count = 0, label = 0;
  std::vector<std::string> decisions;

  std::string called(std::size_t index) const {
    std::string text = "column " + std::to_string(index + 1);
    if (index < names.size()) text += " (\"" + shown(names[index]) + "\")";
    return text;
  }
};

char find_delimiter(std::string_view line) {
  bool quoted = false, semicolon = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\t') return c;
    if (c == ';') semicolon = true;
  }
  return semicolon ? ';' : ',';
}

std::string names_of(const Columns& columns) {
  constexpr std::size_t kMost = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, columns.names.size()); ++i)
    text += (i > 0 ? ", '" : "'") + shown(columns.names[i]) + "'";
  return text + (columns.names.size() > kMost ? " and so on" : "");
}

// The column with this name, `columns.count` if there is none. Case matters if `exact`. An Error if several
// columns have it.
Result<std::size_t> find_column(const std::string& file, const Columns& columns, std::string_view name,
                                bool exact) {
  std::size_t found = columns.count;
  for (std::size_t i = 0; i < columns.names.size(); ++i) {
    if (exact ? columns.names[i] != name : !same_letters(columns.names[i], name)) continue;
    if (found != columns.count)
      return Error{file + ": column " + std::to_string(found + 1) + " and column " + std::to_string(i + 1) +
                   " are both named '" + shown(name) +
                   "'; select the column of labels by its number, as in " +
                   "':label=" + std::to_string(i + 1) + "'"};
    found = i;
  }
  return found;
}

constexpr std::array kLabelNames = {"label", "class", "target", "y"};

// Whether the first line is a record whose only text is the name of its class, rather than a header.
bool is_record_with_class(const std::vector<std::string>& cells, std::size_t texts, std::size_t text_at,
                          const std::string& label) {
  const std::size_t at = label.empty() ? cells.size() - 1 : parse_number<std::size_t>(label).value_or(0) - 1;
  return texts == 1 && cells.size() > 1 && text_at == at &&
         std::ranges::none_of(kLabelNames, [&](const char* name) { return same_letters(cells[at], name); });
}

// Whether the cells number the columns from 0 or 1, as pandas writes the header of an array.
bool numbers_columns(const std::vector<std::string>& cells) {
  const auto from = [&](std::size_t first) {
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (cells[i] != std::to_string(first + i)) return false;
    return true;
  };
  return from(0) || from(1);
}

// Whether the first line is a header. Appends the decision if the line has two readings.
bool is_header(const std::vector<std::string>& cells, std::size_t texts, std::size_t text_at,
               const std::string& label, std::vector<std::string>& decisions) {
  constexpr std::size_t kLeastColumns = 3;  // 0,1 is as likely a record
  if (texts == 0 && !numbers_columns(cells)) return false;
  if (texts > 0 && !is_record_with_class(cells, texts, text_at, label)) return true;
  const bool header = texts == 0 && cells.size() >= kLeastColumns;
  decisions.push_back(header ? "the first line numbers the columns and is read as a header"
                             : "the first line is read as a record, not as a header");
  return header;
}

// The column with a usual name, else the last.
Result<std::size_t> guess_label(const std::string& file, Columns& columns) {
  const auto decide = [&](std::size_t label, const char* why) {
    columns.decisions.push_back("the labels are " + columns.called(label) + why);
    return label;
  };
  for (const char* name : kLabelNames) {
    auto found = find_column(file, columns, name, false);
    if (!found) return found;
    if (*found < columns.count) return decide(*found, ", by its name");
  }
  return decide(columns.count - 1, ", the last one");
}

Result<std::size_t> find_label(const std::string& file, Columns& columns, const std::string& wanted) {
  if (wanted.empty()) return guess_label(file, columns);
  if (wanted.find_first_not_of("0123456789") == std::string::npos) {
    const auto number = parse_number<std::size_t>(wanted);
    if (number && *number >= 1 && *number <= columns.count) return *number - 1;
    return Error{file + " has " + std::to_string(columns.count) + " columns, so ':label=" + shown(wanted) +
                 "' is not one of them; they are numbered from 1"};
  }
  if (columns.names.empty())
    return Error{file + " has no header line, so no column is named '" + shown(wanted) +
                 "'; select the column of labels by its number from 1 to " + std::to_string(columns.count) +
                 ", as in ':label=1'"};
  for (const bool exact : {true, false}) {
    auto found = find_column(file, columns, wanted, exact);
    if (!found || *found < columns.count) return found;
  }
  return Error{file + " has no column named '" + shown(wanted) + "'; its header has " + names_of(columns)};
}

// The columns that the first line defines. Without names if it is a record itself.
Result<Columns> read_columns(const std::string& file, std::string_view line, const std::string& label) {
  Columns columns;
  columns.delimiter = find_delimiter(line);
  std::vector<std::string> names;
  std::size_t texts = 0, text_at = 0;
  std::string unquoted;
  const char* const end = line.data() + line.size();
  for (const char* at = line.data();;) {
    const Cell cell = take_cell(at, end, columns.delimiter, unquoted);
    if (cell.wrong)
      return Error{file + ", line 1, column " + std::to_string(names.size() + 1) + " " + cell.wrong +
                   "; a quote within quotes is written twice"};
    double number = 0;
    if (classify(cell.text, number) == Kind::kText) {
      ++texts;
      text_at = names.size();
    }
    names.emplace_back(cell.text);
    if (names.size() > kColumnsMax)
      return Error{file + " has more than the " + std::to_string(kColumnsMax) + " columns that are accepted"};
    if (cell.end == end) break;
    at = cell.end + 1;
  }
  columns.count = names.size();
  if (is_header(names, texts, text_at, label, columns.decisions)) columns.names = std::move(names);
  if (columns.count < 2)
    return Error{file +
                 " has only one column, because its first line has no comma, semicolon or tab; a column of "
                 "labels and at least one of features are needed"};
  const auto found = find_label(file, columns, label);
  if (!found) return found.error();
  columns.label = *found;
  return columns;
}

// Reads a file's records. choose(number from 0) returns the set for a record.
class Table {
 public:
  // `like`: a table that must have the same columns, or null.
  static Result<Table> open(const std::string& path, const std::string& label, const Table* like,
                            ClassNames& classes, RowWriter& rows) {
    auto lines = CsvLines::open(path);
    if (!lines) return lines.error();
    Table table(std::move(*lines), "'" + path + "'", classes, rows);
    const auto first = table.lines_.next(true);
    if (!first) return first.error();
    if (!*first) return Error{table.file_ + " is empty; one record per line is needed"};
    if (is_blank(**first)) return table.empty_line(1);
    auto columns = read_columns(table.file_, **first, label);
    if (!columns) return columns.error();
    table.columns_ = std::move(*columns);
    if (like) {
      if (const auto same = table.check_same(*like); !same) return same.error();
    }
    if (table.columns_.names.empty()) table.first_ = std::string(**first);
    table.row_.resize(table.columns_.count - 1);
    return table;
  }

  template <class Choose>
  Status read(Choose&& choose) {
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
    const Columns &mine = columns_, &theirs = like.columns_;
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
        return Error{file_ + " names column " + std::to_string(i + 1) + " '" + shown(mine.names[i]) +
                     "', but " + like.file_ + " names it '" + shown(theirs.names[i]) +
                     "'; both must have the same columns in the same order"};
    }
    return Done{};
  }

  // `wrong` continues the sentence after the column's name.
  Error bad_cell(std::size_t column, const std::string& wrong) const {
    return Error{file_ + ", line " + std::to_string(lines_.number()) + ", " + columns_.called(column) + " " +
                 wrong};
  }

  Error bad_feature(std::size_t column, Kind kind, std::string_view text) const {
    if (kind == Kind::kEmpty)
      return bad_cell(column, "is empty; every cell must be a number: fill it in or remove the record");
    const std::string is = "is '" + shown(text) + "'";
    if (kind == Kind::kNotFinite)
      return bad_cell(column, is + "; only finite numbers that fit into 32-bit floats are accepted");
    std::string pointed(text);
    std::replace(pointed.begin(), pointed.end(), ',', '.');
    double value = 0;
    if (pointed != text && classify(pointed, value) == Kind::kNumber)
      return bad_cell(column, is + ", but numbers are written with a point, as in " + pointed +
                                  ", and without separators of thousands");
    return bad_cell(column, is + ", which is not a number; every cell must be one, as in 1.5 or -2e-3");
  }

  Error bad_label(std::string_view text) const {
    return bad_cell(columns_.label, (text.empty() ? "is empty" : "is '" + shown(text) + "'") +
                                        ", but a label is a whole number from 0 to " +
                                        std::to_string(kLabelMax) +
                                        ", or all labels are names; if the labels are in another column, "
                                        "select it, as in ':label=1'");
  }

  Error bad_count(std::string_view line) {
    const char* const end = line.data() + line.size();
    std::size_t cells = 1;
    for (const char* at = line.data(); (at = take_cell(at, end, columns_.delimiter, unquoted_).end) != end;
         ++at)
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
        const auto [behind, error] = std::from_chars(at, end, value);
        stop = behind;
        if (error != std::errc{} || (behind != end && *behind != columns_.delimiter) ||
            !std::isfinite(static_cast<float>(value))) {
          const Cell cell = take_cell(at, end, columns_.delimiter, unquoted_);
          if (cell.wrong) return bad_cell(column, cell.wrong);
          const Kind kind = classify(cell.text, value);
          if (kind == Kind::kEmpty && column + 1 < columns_.count && cell.end == end) return bad_count(line);
          if (kind != Kind::kNumber) return bad_feature(column, kind, cell.text);
          stop = cell.end;
        }
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
    set.lines.push_back(static_cast<std::uint32_t>(lines_.number()));
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
    const Cell cell = take_cell(at, end, columns_.delimiter, unquoted_);
    if (cell.wrong) return bad_cell(columns_.label, cell.wrong);
    double value = 0;  // "3.0" is whole, too
    const Kind kind = classify(cell.text, value);
    if (is_first) has_names_ = kind == Kind::kText;
    if (begins && kind != Kind::kEmpty && (classes_->are_used() || kind == Kind::kText)) {
      const auto number = classes_->number_of(cell.text);
      if (!number)
        return bad_cell(columns_.label, "is class number " + std::to_string(kLabelMax + 2) + "; at most " +
                                            std::to_string(kLabelMax + 1) + " are accepted");
      label = *number;
      return cell.end;
    }
    if (kind != Kind::kNumber || value < 0 || value > kLabelMax || value != std::floor(value))
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
  Columns columns_;
  std::optional<std::string> first_;  // the first line, if it is a record
  std::size_t records_ = 0;
  std::string unquoted_;
  ClassNames* classes_;
  RowWriter* rows_;
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
  auto table = Table::open(path, label, nullptr, classes, rows);
  if (!table) return table.error();
  Dataset train, test;
  const Random random(kSplitSeed);
  std::size_t ten = 0, drawn = random.split(0).below(kTestEvery);
  const auto read = table->read([&](std::size_t record) -> Dataset& {
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
  train.lines = {};
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
    auto table = Table::open(path, label, tables.empty() ? nullptr : tables.data(), classes, rows);
    if (!table) return table.error();
    tables.push_back(std::move(*table));
  }
  std::array<Dataset, 2> parts;  // the test part is read first
  for (std::size_t i = 0; i < tables.size(); ++i) {
    Dataset& part = parts[i];
    if (const auto read = tables[tables.size() - 1 - i].read([&](std::size_t) -> Dataset& { return part; });
        !read)
      return read.error();
    finish(part, rows);
  }
  if (tables.size() == 2) {
    if (const Status alike = check_labels(tables[0], tables[1]); !alike) return alike.error();
  }
  for (Dataset& part : parts) classes.put_in_order(part);
  parts[1].lines = {};
  Origin origin = tables.front().origin();
  for (const char* name : kFiles)
    if (auto path = find_file(folder, name)) origin.files.push_back(std::move(*path));
  rows.tell_merged(origin);
  return join(data_name(folder), folder, std::move(parts[1]), std::move(parts[0]), std::move(origin));
}

bool is_csv_folder(const std::string& folder) { return has_one_of(folder, kFiles); }

bool is_csv_path(std::string_view path) { return has_ending(path, {".csv", ".tsv"}); }

}  // namespace starling::datasets
