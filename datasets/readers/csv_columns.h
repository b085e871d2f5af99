// The cells of a line of CSV, and the columns that the first line of a table defines (csv.h). Used by csv.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "datasets/description.h"

namespace starling::datasets {

// Text from a file for a message: short, and without control characters.
std::string shown_csv(std::string_view text);

struct CsvCell {
  std::string_view text;
  const char* end;              // the delimiter after it, or the line's end
  const char* wrong = nullptr;  // the error in its quotes, if there is one
};

enum class CsvKind : std::uint8_t { number, empty, text, not_finite };

struct CsvColumns {
  char delimiter = ',';
  std::vector<std::string> names;  // empty if the file has no header
  std::size_t count = 0, label = 0;
  bool label_chosen = false;  // by the user
  std::vector<std::string> decisions;

  std::string called(std::size_t index) const {
    std::string text = "column " + std::to_string(index + 1);
    if (index < names.size()) text += " (\"" + shown_csv(names[index]) + "\")";
    return text;
  }
};

// The column of labels that is wanted.
struct CsvLabel {
  std::string said = {};      // the value of the option; empty: none
  LabelColumn of_model = {};  // in the data of the model that is given

  CsvLabel(const std::string& label, const Given& given) : said(label) {
    if (given.of_model != nullptr) of_model = label_column(given.of_model->label);
  }
  // Its number, as far as it is known without a header.
  std::string number() const {
    return said.empty() && of_model.number > 0 ? std::to_string(of_model.number) : said;
  }
};

// The cell at `begin`, without the spaces around it and its quotes. `unquoted` receives the text if it has
// doubled quotes.
CsvCell take_csv_cell(const char* begin, const char* end, char delimiter, std::string& unquoted);

// Classifies a cell's text; `value` receives the number.
CsvKind classify_csv(std::string_view text, double& value);

// Whether the value is the one of this text, or the text is no whole number.
bool is_exact_csv(std::string_view text, double value);

// The columns that the first line defines. Without names if it is a record itself.
Result<CsvColumns> read_csv_columns(const std::string& file, std::string_view line, const CsvLabel& label);

}  // namespace starling::datasets
