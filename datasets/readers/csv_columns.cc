#include "datasets/readers/csv_columns.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>

#include "base/text.h"
#include "datasets/readers/byte_source.h"

namespace starling::datasets {
namespace {

constexpr std::size_t kColumnsMax = std::size_t{1} << 20;

bool is_space(char c, char delimiter) { return c == ' ' || (c == '\t' && delimiter != '\t'); }

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

std::string names_of(const CsvColumns& columns) {
  constexpr std::size_t kMost = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, columns.names.size()); ++i)
    text += (i > 0 ? ", '" : "'") + shown_csv(columns.names[i]) + "'";
  return text + (columns.names.size() > kMost ? " and so on" : "");
}

// The column with this name, `columns.count` if there is none. Case matters if `exact`. An Error if several
// columns have it.
Result<std::size_t> find_column(const std::string& file, const CsvColumns& columns, std::string_view name,
                                bool exact) {
  std::size_t found = columns.count;
  for (std::size_t i = 0; i < columns.names.size(); ++i) {
    if (exact ? columns.names[i] != name : !same_letters(columns.names[i], name)) continue;
    if (found != columns.count)
      return Error{file + ": column " + std::to_string(found + 1) + " and column " + std::to_string(i + 1) +
                   " are both named '" + shown_csv(name) +
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

// Whether the cells number the columns from 0 or 1, as pandas writes the header of an array, perhaps behind
// the empty name of its index.
bool numbers_columns(std::span<const std::string> cells) {
  if (cells.front().empty()) cells = cells.subspan(1);
  const auto from = [&](std::size_t first) {
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (cells[i] != std::to_string(first + i)) return false;
    return !cells.empty();
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
Result<std::size_t> guess_label(const std::string& file, CsvColumns& columns) {
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

// The column that has the labels in the model's data, `columns.count` if there is none.
Result<std::size_t> find_label_of_model(const std::string& file, const CsvColumns& columns,
                                        const LabelColumn& label) {
  if (!columns.names.empty() && !label.name.empty()) return find_column(file, columns, label.name, true);
  return label.number > 0 ? std::min(label.number - 1, columns.count) : columns.count;
}

Result<std::size_t> find_label(const std::string& file, CsvColumns& columns, const CsvLabel& wish) {
  const std::string& wanted = wish.said;
  if (wanted.empty()) {
    auto found = find_label_of_model(file, columns, wish.of_model);
    return !found || *found < columns.count ? found : guess_label(file, columns);
  }
  if (wanted.find_first_not_of("0123456789") == std::string::npos) {
    const auto number = parse_number<std::size_t>(wanted);
    const auto named = std::ranges::find(columns.names, wanted);
    if (number && *number >= 1 && *number <= columns.count) {
      if (named != columns.names.end() &&
          named - columns.names.begin() + 1 != static_cast<std::ptrdiff_t>(*number))
        columns.decisions.push_back(":label=" + wanted + " is " + columns.called(*number - 1) +
                                    ", by its number; another column has this name");
      return *number - 1;
    }
    return Error{file + " has " + std::to_string(columns.count) + " columns, so ':label=" +
                 shown_csv(wanted) + "' is not one of them; they are numbered from 1"};
  }
  if (columns.names.empty())
    return Error{file + " has no header line, so no column is named '" + shown_csv(wanted) +
                 "'; select the column of labels by its number from 1 to " + std::to_string(columns.count) +
                 ", as in ':label=1'"};
  for (const bool exact : {true, false}) {
    auto found = find_column(file, columns, wanted, exact);
    if (!found || *found < columns.count) return found;
  }
  return Error{file + " has no column named '" + shown_csv(wanted) + "'; its header has " +
               names_of(columns)};
}

}  // namespace

std::string shown_csv(std::string_view text) {
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

CsvCell take_csv_cell(const char* begin, const char* end, char delimiter, std::string& unquoted) {
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
    if (close == end)
      return {
          {begin, end},
          end,
          "opens a quote that is not closed on its line; only a header may have line breaks within quotes"};
    if (*close != '"') continue;
    if (close + 1 == end || close[1] != '"') break;
    doubled = true;
    ++close;
  }
  CsvCell cell{{begin, close}, close + 1};
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

CsvKind classify_csv(std::string_view text, double& value) {
  if (text.empty()) return CsvKind::empty;
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return CsvKind::text;
  // Too large, which is rejected, or too close to zero, which is zero.
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(text).c_str(), nullptr);
  return std::isfinite(static_cast<float>(value)) ? CsvKind::number : CsvKind::not_finite;
}

bool is_exact_csv(std::string_view text, double value) {
  const std::size_t first = text.find_first_of("0123456789"), last = text.find_last_of("0123456789");
  const std::string_view digits = text.substr(first, last - first + 1);
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) return true;
  const auto whole = parse_number<std::uint64_t>(digits);
  constexpr double kEnd = 18446744073709551616.0;  // 2^64
  return whole && std::abs(value) < kEnd && static_cast<std::uint64_t>(std::abs(value)) == *whole;
}

Result<CsvColumns> read_csv_columns(const std::string& file, std::string_view line, const CsvLabel& label) {
  constexpr std::string_view kSeparatorLine = "sep=";
  if (same_letters(line.substr(0, kSeparatorLine.size()), kSeparatorLine) &&
      line.size() <= kSeparatorLine.size() + 1)
    return Error{file + ": the first line '" + shown_csv(line) +
                 "' is a spreadsheet's note and no record; remove it"};
  CsvColumns columns;
  columns.delimiter = find_delimiter(line);
  std::vector<std::string> names;
  std::size_t texts = 0, text_at = 0;
  std::string unquoted;
  const char* const end = line.data() + line.size();
  for (const char* at = line.data();;) {
    const CsvCell cell = take_csv_cell(at, end, columns.delimiter, unquoted);
    if (cell.wrong)
      return Error{file + ", line 1, column " + std::to_string(names.size() + 1) + " " + cell.wrong +
                   "; a quote within quotes is written twice"};
    double number = 0;
    if (classify_csv(cell.text, number) == CsvKind::text) {
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
  if (is_header(names, texts, text_at, label.number(), columns.decisions)) columns.names = std::move(names);
  if (columns.count < 2)
    return Error{file +
                 " has only one column, because its first line has no comma, semicolon or tab; a column of "
                 "labels and at least one of features are needed"};
  const auto found = find_label(file, columns, label);
  if (!found) return found.error();
  columns.label = *found;
  columns.label_chosen = !label.said.empty();
  if (!columns.names.empty() && columns.names.front().empty() && columns.label > 0)
    columns.decisions.emplace_back("column 1 has no name, as the index that pandas writes, and is a feature");
  return columns;
}

}  // namespace starling::datasets
