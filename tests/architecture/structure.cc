#include "tests/architecture/structure.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

namespace starling::architecture {
namespace {

struct Token {
  std::string text;
  std::size_t line;
};

bool is_word(const std::string& text) { return !text.empty() && is_word(text.front()); }

void tokenize(std::string_view line, std::size_t number, std::vector<Token>& tokens) {
  static constexpr std::array<std::string_view, 6> kPairs = {"::", "->", "==", "<=", ">=", "!="};
  for (std::size_t at = 0; at < line.size();) {
    std::size_t length = 1;
    if (is_word(line[at])) {
      while (at + length < line.size() && (is_word(line[at + length]) || line[at + length] == '\'')) ++length;
    } else if (std::find(kPairs.begin(), kPairs.end(), line.substr(at, 2)) != kPairs.end()) {
      length = 2;
    }
    if (line[at] != ' ' && line[at] != '\t') tokens.push_back({std::string(line.substr(at, length)), number});
    at += length;
  }
}

// All lines except preprocessor lines.
std::vector<Token> tokens_of(const Source& source) {
  std::vector<Token> tokens;
  bool directive = false;
  for (std::size_t n = 0; n < source.lines.size(); ++n) {
    const std::string& line = source.lines[n];
    const auto first = line.find_first_not_of(" \t");
    directive = directive || (first != std::string::npos && line[first] == '#');
    if (!directive) tokenize(line, n + 1, tokens);
    directive = directive && line.ends_with('\\');
  }
  return tokens;
}

// The start of a declaration, up to its brace or semicolon. A group in brackets is one element: "()", "[]",
// "<>",
// "{}", and "(*)" for a group that begins with a star.
using Head = std::vector<std::string>;

constexpr std::array<std::string_view, 4> kTypeKeys = {"class", "struct", "union", "enum"};

template <class List>
bool contains(const List& list, std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

std::size_t find_in(const Head& head, std::string_view text) {
  return static_cast<std::size_t>(std::find(head.begin(), head.end(), text) - head.begin());
}

// Without template parameters and attributes.
Head bare(Head head) {
  while (!head.empty()) {
    if (head.front() == "[]") {
      head.erase(head.begin());
    } else if (head.front() == "template" && head.size() > 1 && head[1] == "<>") {
      head.erase(head.begin(), head.begin() + 2);
    } else {
      break;
    }
  }
  return head;
}

bool is_type(const Head& head) { return !head.empty() && contains(kTypeKeys, head.front()); }

std::string type_name(const Head& head) {
  for (const auto& word : head) {
    if (is_word(word) && !contains(kTypeKeys, word) && word != "alignas") return word;
  }
  return {};
}

// The index of a function's parameters in its head; head.size() if it is not a function.
std::size_t parameters(const Head& head) {
  for (std::size_t at = 0; at < head.size(); ++at) {
    if (head[at] == "operator") {
      const std::size_t next = at + 1 < head.size() && head[at + 1] == "()" ? at + 2 : at + 1;
      return next + find_in(Head(head.begin() + static_cast<std::ptrdiff_t>(std::min(next, head.size())),
                                 head.end()),
                            "()");
    }
    if (head[at] == "=" || head[at] == "(*)") return head.size();
    if (head[at] == "()" && at > 0 && head[at - 1] != "alignas" && head[at - 1] != "explicit") return at;
  }
  return head.size();
}

// "World::step" of "void World::step() const".
std::string function_name(const Head& head, std::size_t parameters) {
  const std::size_t op = find_in(head, "operator");
  if (op < parameters) return "operator";
  std::size_t first = parameters;
  while (first > 0 && (is_word(head[first - 1]) || head[first - 1] == "<>" || head[first - 1] == "::" ||
                       head[first - 1] == "~")) {
    const bool joined = first == parameters || head[first] == "::" || head[first - 1] == "::" ||
                        head[first - 1] == "~" || head[first] == "<>" || head[first] == "~";
    if (!joined) break;
    --first;
  }
  std::string name;
  for (std::size_t at = first; at < parameters; ++at) name += head[at] == "<>" ? "" : head[at];
  return name;
}

class Parser {
 public:
  explicit Parser(const Source& source) : tokens_(tokens_of(source)) {}

  Structure run() {
    while (at_ < tokens_.size()) {
      scope({});
      ++at_;  // a surplus brace
    }
    return std::move(structure_);
  }

 private:
  struct Scope {
    bool public_names = true;
    std::optional<std::size_t> type;  // in structure_.classes
  };

  const std::string& text() const { return tokens_[at_].text; }

  // Reads declarations up to the scope's closing brace, and stops there.
  void scope(const Scope& inside) {
    Head head;
    std::size_t line = 0;
    while (at_ < tokens_.size() && text() != "}") {
      if (head.empty()) line = tokens_[at_].line;
      if (text() == ";") {
        declaration(bare(std::move(head)), inside);
        head = {};
        ++at_;
      } else if (text() == "{") {
        if (block(bare(head), line, inside)) {
          head = {};
        } else {
          head.emplace_back("{}");
        }
      } else if (text() == ":" && head.size() == 1 &&
                 (head[0] == "public" || head[0] == "private" || head[0] == "protected")) {
        head = {};
        ++at_;
      } else {
        element(head);
      }
    }
  }

  // One token, or a group in brackets.
  void element(Head& head) {
    const std::string& now = text();
    if (now == "(" || now == "[") {
      const bool star = at_ + 1 < tokens_.size() && tokens_[at_ + 1].text == "*";
      head.emplace_back(now == "[" ? "[]" : star ? "(*)" : "()");
      skip_group();
    } else if (now == "<" && !head.empty() && is_word(head.back()) && head.back() != "operator" &&
               end_of_angle() != 0) {
      at_ = end_of_angle();
      head.emplace_back("<>");
    } else {
      head.push_back(now);
      ++at_;
    }
  }

  // From an opening bracket to after its closing one.
  void skip_group() {
    int depth = 0;
    do {
      if (text() == "(" || text() == "[" || text() == "{") ++depth;
      if (text() == ")" || text() == "]" || text() == "}") --depth;
      ++at_;
    } while (at_ < tokens_.size() && depth > 0);
  }

  // The position after the '>' that closes the '<' at at_; 0 if that is an operator.
  std::size_t end_of_angle() const {
    int angles = 0, groups = 0;
    for (std::size_t at = at_; at < tokens_.size(); ++at) {
      const std::string& now = tokens_[at].text;
      if (now == "(" || now == "[") ++groups;
      if (now == ")" || now == "]") --groups;
      if (groups < 0 || now == ";" || now == "{" || now == "}") return 0;
      if (groups > 0) continue;
      if (now == "<") ++angles;
      if (now == ">" && --angles == 0) return at + 1;
    }
    return 0;
  }

  // At a '{'. True if the declaration ends with this block.
  bool block(const Head& head, std::size_t line, const Scope& inside) {
    const bool is_namespace = contains(head, "namespace");
    if (is_namespace || (!head.empty() && head.front() == "extern" && parameters(head) == head.size())) {
      ++at_;
      scope(
          {.public_names = inside.public_names && !(is_namespace && head.back() == "namespace"), .type = {}});
      ++at_;
      return true;
    }
    const std::size_t where = parameters(head);
    if (is_type(head) && (where == head.size() || find_in(head, ":") < where)) {
      type(head, line, inside);
      return false;
    }
    const bool initializes =
        where < head.size() &&
        contains(Head(head.begin() + static_cast<std::ptrdiff_t>(where), head.end()), ":") &&
        (is_word(head.back()) || head.back() == "<>");
    skip_group();
    if (where == head.size() || initializes) return false;
    add_function(head, where, inside);
    const std::size_t last = tokens_[at_ - 1].line;
    structure_.functions.push_back({function_name(head, where), line, static_cast<int>(last - line + 1)});
    return true;
  }

  void type(const Head& head, std::size_t line, const Scope& inside) {
    const std::string name = type_name(head);
    if (inside.public_names && !inside.type && !name.empty()) structure_.names.push_back(name);
    if (head.front() == "enum") return skip_group();
    const std::size_t index = structure_.classes.size();
    structure_.classes.push_back({name, line, 0, 0});
    ++at_;
    scope({.public_names = false, .type = index});
    ++at_;
  }

  void add_function(const Head& head, std::size_t where, const Scope& inside) {
    const std::string name = function_name(head, where);
    if (inside.type) {
      if (!contains(head, "friend")) ++structure_.classes[*inside.type].methods;
    } else if (inside.public_names && name.find(':') == std::string::npos) {
      structure_.names.push_back(name);
    }
  }

  // At a ';'.
  void declaration(const Head& head, const Scope& inside) {
    static constexpr std::array<std::string_view, 6> kOther = {"using",   "friend", "static_assert",
                                                               "typedef", "extern", "template"};
    if (head.empty() || contains(kOther, head.front())) return;
    if (is_type(head) && !contains(head, "=") && (head.size() <= 2 || head.back() == "{}")) return;
    const std::size_t where = parameters(head);
    if (where < head.size()) {
      if (head.back() != "default" && head.back() != "delete") add_function(head, where, inside);
    } else if (inside.type && !contains(head, "static") && !contains(head, "constexpr")) {
      structure_.classes[*inside.type].members +=
          1 + static_cast<int>(std::count(head.begin(), head.end(), ","));
    }
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  Structure structure_;
};

}  // namespace

Structure structure_of(const Source& source) { return Parser(source).run(); }

}  // namespace starling::architecture
