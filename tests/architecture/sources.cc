#include "tests/architecture/sources.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <sstream>

namespace starling::architecture {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Reads the text character by character and appends code to the current line.
class Stripper {
 public:
  explicit Stripper(std::string_view text) : text_(text) {}

  std::vector<std::string> run() {
    while (at_ < text_.size()) next();
    end_line();
    return std::move(lines_);
  }

 private:
  void next() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("//")) {
      skip_to(rest.find('\n'));
    } else if (rest.starts_with("/*")) {
      line_ += ' ';
      const auto end = rest.find("*/", 2);
      skip_to(end == std::string_view::npos ? end : end + 2);
    } else if (rest.starts_with("R\"") && (line_.empty() || !is_word(line_.back()))) {
      raw_string(rest);
    } else if (rest.front() == '"' && is_include()) {
      take(std::min(rest.find('\n'), rest.size()));
    } else if (rest.front() == '"' || (rest.front() == '\'' && (line_.empty() || !is_word(line_.back())))) {
      literal(rest.front());  // a quote after a word is a digit separator
    } else {
      take(1);
    }
  }

  void take(std::size_t count) {
    for (; count > 0; --count, ++at_) {
      if (text_[at_] == '\n') {
        end_line();
      } else {
        line_ += text_[at_];
      }
    }
  }
  // Skips the rest up to `end`, but keeps its line ends.
  void skip_to(std::size_t end) {
    const std::size_t stop = end == std::string_view::npos ? text_.size() : at_ + end;
    for (; at_ < stop; ++at_) {
      if (text_[at_] == '\n') end_line();
    }
  }
  void literal(char quote) {
    line_ += quote;
    ++at_;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
    line_ += quote;
    if (at_ < text_.size() && text_[at_] == quote) ++at_;
  }
  void raw_string(std::string_view rest) {
    const auto open = rest.find('(');
    if (open == std::string_view::npos) return take(2);
    const std::string close = ")" + std::string(rest.substr(2, open - 2)) + "\"";
    const auto end = rest.find(close, open);
    line_ += "\"\"";
    skip_to(end == std::string_view::npos ? end : end + close.size());
  }
  bool is_include() const {
    const auto first = line_.find_first_not_of(" \t");
    return first != std::string::npos && line_[first] == '#' && line_.find("include") != std::string::npos;
  }
  void end_line() {
    lines_.push_back(std::move(line_));
    line_.clear();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string line_;
  std::vector<std::string> lines_;
};

bool is_source(const std::filesystem::path& path) {
  static const std::array<std::string_view, 9> kExtensions = {".h",  ".cc",  ".cpp", ".hpp", ".cxx",
                                                              ".cu", ".cuh", ".inc", ".c"};
  return std::find(kExtensions.begin(), kExtensions.end(), path.extension().string()) != kExtensions.end();
}

bool is_no_source_folder(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  return name.starts_with(".") || name.starts_with("build") ||
         std::filesystem::exists(folder / "CMakeCache.txt");
}

}  // namespace

std::vector<std::string> code_of(std::string_view text) { return Stripper(text).run(); }

Source make_source(const std::string& path, std::string_view text) {
  Source source{path, code_of(text), {}};
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) source.text.push_back(std::move(line));
  return source;
}

std::vector<Include> own_includes(const Source& source) {
  std::vector<Include> includes;
  for (std::size_t n = 0; n < source.lines.size(); ++n) {
    std::string_view line = source.lines[n];
    for (const std::string_view word : {"#", "include", "\""}) {
      line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      line = line.starts_with(word) ? line.substr(word.size()) : std::string_view{};
    }
    if (const auto end = line.find('"'); end != std::string_view::npos)
      includes.push_back({n + 1, std::string(line.substr(0, end))});
  }
  return includes;
}

std::vector<Source> read_sources(const std::filesystem::path& root) {
  namespace fs = std::filesystem;
  std::vector<Source> sources;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::recursive_directory_iterator();
       ++entry) {
    if (entry->is_directory()) {
      if (entry.depth() == 0 && is_no_source_folder(entry->path())) entry.disable_recursion_pending();
      continue;
    }
    if (!is_source(entry->path())) continue;
    std::ifstream file(entry->path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    sources.push_back(make_source(fs::relative(entry->path(), root).generic_string(), text));
  }
  std::sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) { return a.path < b.path; });
  return sources;
}

}  // namespace starling::architecture
