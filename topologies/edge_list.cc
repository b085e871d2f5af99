// read_edge_list() of topologies/graph_file.h: lists of links in lines, and tables of links with a header
// line.
#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "base/text.h"
#include "topologies/graph_builder.h"
#include "topologies/graph_file.h"

namespace starling::topologies {
namespace {

constexpr std::string_view kMark = "\xef\xbb\xbf";  // at the begin of a text in UTF-8
constexpr std::string_view kColumns = "; expected 'a b' or 'a b weight'";
constexpr std::array<const char*, 3> kNth = {"first", "second", "third"};

// A line without its comment.
struct Row {
  std::vector<std::string> cells;
  std::string attributes;     // "{'weight': 2}" of networkx; empty: none
  bool has_blank = false;     // a cell between commas or semicolons has a blank inside
  bool is_separated = false;  // by commas or semicolons
};

// Reads a quoted cell, which begins at text[at], and moves `at` behind it. Two quotes inside are one.
std::string quoted_cell(std::string_view text, std::size_t& at) {
  std::string cell;
  for (++at; at < text.size(); ++at) {
    if (text[at] == '"') {
      if (at + 1 >= text.size() || text[at + 1] != '"') break;
      ++at;
    }
    cell += text[at];
  }
  at = std::min(at + 1, text.size());
  return cell;
}

// Splits a line of links at blanks, commas and semicolons.
Row row_of(std::string_view line) {
  Row row;
  const std::size_t brace = line.find('{');
  const std::string_view links = line.substr(0, std::min(brace, line.find_first_of("#%")));
  if (links.size() == brace) {
    const std::size_t end = std::min(line.rfind('}'), line.size() - 1) + 1;
    const std::string_view rest = trimmed(line.substr(end));
    const bool ends = rest.empty() || rest.front() == '#' || rest.front() == '%';
    row.attributes = line.substr(brace, ends ? end - brace : std::string_view::npos);
  }
  row.is_separated = links.find_first_of(",;") != std::string_view::npos;
  const std::string_view text = row.is_separated ? trimmed(links) : links;
  bool waits = row.is_separated;  // for the next cell
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (kBlanks.find(c) != std::string_view::npos) {
      ++at;
    } else if (c == ',' || c == ';') {
      if (waits) row.cells.emplace_back();
      waits = true;
      ++at;
    } else if (row.is_separated && c == '"') {
      row.cells.push_back(quoted_cell(text, at));
      waits = false;
    } else {
      const std::size_t end = std::min(text.find_first_of(" \t\r\f\v,;", at), text.size());
      row.has_blank |= row.is_separated && !waits;
      row.cells.emplace_back(text.substr(at, end - at));
      waits = false;
      at = end;
    }
  }
  // The separator before attributes ends no cell.
  if (row.is_separated && waits && row.attributes.empty()) row.cells.emplace_back();
  return row;
}

// Splits a line of a table at `separator`, or at blanks.
std::vector<std::string> table_cells(std::string_view line, char separator) {
  if (separator == ' ') return row_of(line).cells;
  std::vector<std::string> cells;
  for (std::size_t at = 0; at <= line.size(); ++at) {
    const std::size_t begin = line.find_first_not_of(" \r", at);
    if (begin < line.size() && line[begin] == '"') {
      at = begin;
      cells.push_back(quoted_cell(line, at));
      at = std::min(line.find(separator, at), line.size());
    } else {
      const std::size_t end = std::min(line.find(separator, at), line.size());
      cells.emplace_back(trimmed(line.substr(at, end - at)));
      at = end;
    }
  }
  return cells;
}

// A header line: "source,target,weight" of pandas, "Source;Target;Type;Id;Label;Weight" of Gephi.
struct Header {
  char separator = ' ';
  std::size_t columns = 0, from = 0, to = 0;
  std::optional<std::size_t> weight, type;
};

// Nothing if the line is no header.
Result<std::optional<Header>> header_in(std::string_view line, const std::string& place) {
  Header header;
  for (const char separator : {'\t', ';', ','})
    if (line.find(separator) != std::string_view::npos) header.separator = separator;
  const auto cells = table_cells(line, header.separator);
  header.columns = cells.size();
  std::optional<std::size_t> from, to;
  std::string similar;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string name = in_small_letters(cells[i]);
    std::optional<std::size_t>* const column = name == "source" || name == "from" ? &from
                                               : name == "target" || name == "to" ? &to
                                               : name == "weight"                 ? &header.weight
                                               : name == "type"                   ? &header.type
                                                                                  : nullptr;
    if (column != nullptr && *column && (from || to))
      return Error{place + ": the header has the column " + quoted(name) + " twice; expected once"};
    if (column != nullptr) *column = i;
    if (column == nullptr && name.find("weight") != std::string::npos) similar = cells[i];
  }
  if (!from || !to) return std::optional<Header>();
  if (!header.weight && !similar.empty())
    return Error{place + ": the column " + quoted(similar) +
                 " is similar to a weight; expected the name weight, or another name"};
  header.from = *from;
  header.to = *to;
  return std::optional(header);
}

// The value of 'weight' in a dictionary of Python without others inside: "{'color': 'red', 'weight': 2.5}".
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : text_(text) {}

  // Nothing if it has no weight.
  Result<std::optional<std::string>> weight(const std::string& place) {
    std::optional<std::string> found;
    const Error wrong{place + ": " + quoted(text_) + " is no list of attributes; expected {'weight': 2.5}"};
    if (!takes('{')) return wrong;
    if (takes('}')) return at_ == text_.size() ? Result(found) : wrong;
    for (bool more = true; more;) {
      const auto key = literal();
      if (!key || !takes(':')) return wrong;
      const auto value = literal();
      if (!value) return wrong;
      const std::string name = in_small_letters(*key);
      if (name == "weight" && found) return Error{place + ": the link has two weights; expected one"};
      if (name == "weight")
        found = *value;
      else if (name.find("weight") != std::string::npos)
        return Error{place + ": the attribute " + quoted(*key) +
                     " is similar to a weight; expected the name weight, or another name"};
      more = takes(',');
    }
    if (!takes('}') || at_ != text_.size()) return wrong;
    return found;
  }

 private:
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size()); }
  bool takes(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // A text in quotes, a number, True, or a number of NumPy, "np.float64(2.5)".
  std::optional<std::string> literal() {
    skip_blanks();
    if (at_ == text_.size()) return std::nullopt;
    if (const char quote = text_[at_]; quote == '\'' || quote == '"') {
      std::string value;
      for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
        if (text_[at_] == '\\') ++at_;
        if (at_ < text_.size()) value += text_[at_];
      }
      return at_ < text_.size() ? (++at_, std::optional(value)) : std::nullopt;
    }
    const std::size_t end = std::min(text_.find_first_of(",:}{[", at_), text_.size());
    std::string_view value = trimmed(text_.substr(at_, end - at_));
    at_ = end;
    const std::size_t bracket = value.find('(');
    if (value.starts_with("np.") && bracket != std::string_view::npos && value.ends_with(')'))
      value = value.substr(bracket + 1, value.size() - bracket - 2);
    return value.empty() ? std::nullopt : std::optional(std::string(value));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Whether each line has a node and its neighbors, as networkx.write_adjlist() has it: every node begins one
// line.
bool is_adjacency_list(std::string_view text) {
  std::set<std::string> firsts, all;
  while (!text.empty()) {
    const std::vector<std::string> cells = row_of(cut_off(text, '\n')).cells;
    if (cells.empty()) continue;
    if (!firsts.insert(cells.front()).second) return false;
    all.insert(cells.begin(), cells.end());
  }
  return firsts.size() > 1 && all == firsts;
}

const Error kAdjacencyList{
    "the file is an adjacency list, as networkx.write_adjlist() writes it; expected a list of links, as of "
    "networkx.write_edgelist()"};

class EdgeListReader {
 public:
  explicit EdgeListReader(std::string_view text) : text_(text) {}

  Result<GraphFile> read() {
    if (text_.starts_with(kMark)) text_.remove_prefix(kMark.size());
    if (text_.starts_with("\xff\xfe") || text_.starts_with("\xfe\xff") ||
        text_.find('\0') != std::string_view::npos)
      return Error{"the text is not UTF-8, but UTF-16 or no text at all; expected UTF-8"};
    for (std::string_view rest = text_; !rest.empty();) {
      ++number_;
      if (Status read = take_line(cut_off(rest, '\n')); !read) return read.error();
    }
    if (const auto missing = builder_.missing_number(); builder_.is_numbered() && missing)
      return Error{"the nodes are numbered, but node " + std::to_string(*missing) +
                   " has no link; expected numbers from 0 without a gap, or names"};
    return std::move(builder_).finish();
  }

 private:
  Status take_line(std::string_view line) {
    const std::string_view bare = trimmed(line);
    if (bare.empty()) return Done{};
    if (bare.front() == '#' || bare.front() == '%') {
      // Its second line, behind the command that wrote the file.
      const std::string_view comment = trimmed(bare.substr(1));
      if (!begun_ && comment.starts_with("GMT ")) return kAdjacencyList;
      return Done{};
    }
    if (header_) return take_table_line(line);
    const bool first = !begun_;
    begun_ = true;
    if (!first && !only_directed_) return take_links(line);
    const std::string_view word = trimmed(bare.substr(0, bare.find_first_of("#%")));
    if (!only_directed_ && word == "directed") {
      builder_.directed = only_directed_ = true;
      return Done{};
    }
    only_directed_ = false;
    const auto header = header_in(line, at_line(number_));
    if (!header) return header.error();
    header_ = *header;
    return header_ ? Status(Done{}) : take_links(line);
  }

  Status take_links(std::string_view line) {
    const Row row = row_of(line);
    const std::size_t columns = row.cells.size();
    const std::string place = at_line(number_);
    if (columns == 0 && row.attributes.empty()) return Done{};
    if (columns != 2 && (columns != 3 || !row.attributes.empty())) {
      if (is_adjacency_list(text_)) return kAdjacencyList;
      return Error{place + " has " + std::to_string(columns) + (columns == 1 ? " column" : " columns") +
                   std::string(kColumns)};
    }
    for (std::size_t i = 0; i < columns; ++i)
      if (row.cells[i].empty())
        return Error{place + ": the " + kNth[i] + " cell is empty" + std::string(kColumns)};
    if (row.has_blank)
      return Error{place + ": a cell has a blank inside; expected names without blanks, or in \"quotes\""};
    std::optional<std::string> weight;
    if (columns == 3) weight = row.cells[2];
    if (!row.attributes.empty()) {
      const auto given = Dictionary(row.attributes).weight(place);
      if (!given) return given.error();
      weight = *given;
    }
    return link(row.cells[0], row.cells[1], weight);
  }

  Status take_table_line(std::string_view line) {
    const auto cells = table_cells(line, header_->separator);
    const std::string place = at_line(number_);
    if (cells.size() != header_->columns)
      return Error{place + " has " + std::to_string(cells.size()) + (cells.size() == 1 ? " cell" : " cells") +
                   "; expected " + std::to_string(header_->columns) + ", as in the header"};
    for (const std::size_t end : {header_->from, header_->to})
      if (cells[end].empty())
        return Error{place + ": the cell of the " + (end == header_->from ? "source" : "target") +
                     " is empty; expected a node"};
    if (header_->type)
      if (Status taken = take_type(cells[*header_->type], place); !taken) return taken;
    std::optional<std::string> weight;
    if (header_->weight) weight = cells[*header_->weight];
    return link(cells[header_->from], cells[header_->to], weight);
  }

  // Gephi's type of a link, which must be the same for all.
  Status take_type(const std::string& cell, const std::string& place) {
    const std::string type = in_small_letters(cell);
    if (type != "directed" && type != "undirected")
      return Error{place + ": the type of the link is " + quoted(cell) + "; expected Directed or Undirected"};
    const bool directed = type == "directed";
    if (builder_.directed != directed && (typed_ || builder_.directed))
      return Error{place + ": the link is " + type + ", but earlier ones are not; expected one type"};
    typed_ = true;
    builder_.directed = directed;
    return Done{};
  }

  Status link(const std::string& a, const std::string& b, const std::optional<std::string>& text) {
    const std::string place = at_line(number_);
    double weight = 1;
    if (text) {
      const auto given = parse_weight(place, *text);
      if (!given) return given.error();
      weight = *given;
    }
    const auto from = builder_.node(place, a);
    if (!from) return from.error();
    const auto to = builder_.node(place, b);
    if (!to) return to.error();
    return builder_.link(place, *from, *to, weight);
  }

  std::string_view text_;
  std::size_t number_ = 0;      // of the line
  bool begun_ = false;          // a line that is no comment was read
  bool only_directed_ = false;  // that line was "directed", and nothing followed
  bool typed_ = false;          // a link had a type
  std::optional<Header> header_;
  GraphBuilder builder_;
};

}  // namespace

Result<GraphFile> read_edge_list(std::string_view text) { return EdgeListReader(text).read(); }

}  // namespace starling::topologies
