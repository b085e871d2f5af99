#include "datasets/path_options.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/text.h"
#include "datasets/readers/byte_source.h"

namespace starling::datasets {
namespace {

struct OptionKind {
  const char* key;
  std::string PathOptions::*value;
  const char* values;  // that are accepted, separated by spaces; empty: any text
  const char* meaning;
};
constexpr std::array<OptionKind, 5> kOptions = {{
    {"label", &PathOptions::label, "",
     "the column of labels of a table, by its name or number, as in 'iris.csv:label=species' or "
     "'iris.csv:label=5'"},
    {"tokens", &PathOptions::tokens, "",
     "the tokens of a text: characters, bytes or the path of a tokenizer, as in 'book.txt:tokens=bytes' or "
     "'book.txt:tokens=tokenizer.txt'"},
    {"special", &PathOptions::special, "text tokens",
     "what special tokens in a text are, tokens or text, as in 'book.txt:special=text'"},
    {"width", &PathOptions::width, "16 32",
     "the bits of the numbers in a file of tokens, 16 or 32, as in 'train.bin:width=32'"},
    {"channels", &PathOptions::channels, "first last",
     "where the shape of NumPy's images has the channels, first or last, as in 'photos:channels=last'"},
}};

std::string before_value(const OptionKind& kind) { return std::string(":") + kind.key + "="; }

bool is_one_of(std::string_view word, std::string_view words) {
  return std::ranges::any_of(starling::split(words, ' '), [&](std::string_view one) { return one == word; });
}

Error bad_option(const std::string& name) {
  std::string all;
  for (const OptionKind& kind : kOptions)
    all += (all.empty() ? "" : "; ") + before_value(kind) + " is " + kind.meaning;
  return Error{"data '" + name + "': the options after a path are not right: " + all};
}

// The first option of the name from this place on; `at` becomes where it begins, npos without one.
const OptionKind* next_option(std::string_view name, std::size_t from, std::size_t& at) {
  at = std::string_view::npos;
  const OptionKind* first = nullptr;
  for (const OptionKind& kind : kOptions) {
    const std::size_t found = name.find(before_value(kind), from);
    if (found >= at) continue;
    at = found;
    first = &kind;
  }
  return first;
}

bool leads_to_data(std::string_view path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

Result<PathWithOptions> split_path(const std::string& name) {
  PathWithOptions parts{name};
  if (leads_to_data(name)) return parts;
  std::size_t at = 0;
  const OptionKind* kind = next_option(name, 0, at);
  if (kind == nullptr) {
    const auto before = std::string_view(name).substr(0, name.rfind(':'));
    const bool is_path =
        leads_to_data(before) || has_ending(before, {".csv", ".tsv", ".txt", ".text", ".bin", ".npy"});
    return before.size() < name.size() && is_path ? Result<PathWithOptions>(bad_option(name)) : parts;
  }
  parts.path = name.substr(0, at);
  while (kind != nullptr) {
    const OptionKind& one = *kind;
    const std::size_t begin = at + before_value(one).size();
    kind = next_option(name, begin, at);
    std::string& value = parts.options.*one.value;
    if (!value.empty()) return bad_option(name);
    value = name.substr(begin, at - begin);
    if (value.empty() || (*one.values != '\0' && !is_one_of(value, one.values))) return bad_option(name);
  }
  return parts;
}

std::string options_text(const PathOptions& options) {
  std::string text;
  for (const OptionKind& kind : kOptions)
    if (const std::string& value = options.*kind.value; !value.empty()) text += before_value(kind) + value;
  return text;
}

Status check_options(const PathWithOptions& parts, std::string_view accepted) {
  for (const OptionKind& kind : kOptions) {
    if ((parts.options.*kind.value).empty() || is_one_of(kind.key, accepted)) continue;
    return Error{"the data in '" + parts.path + "' do not take the option " + before_value(kind) + ", " +
                 kind.meaning};
  }
  return Done{};
}

}  // namespace starling::datasets
