#include "topologies/graph_builder.h"

#include <algorithm>

#include "base/text.h"

namespace starling::topologies {
namespace {

constexpr std::size_t kLabelBytesMax = 64;  // as for names of peers

}  // namespace

Result<std::uint32_t> GraphBuilder::node(const std::string& place, std::string_view label) {
  if (const auto found = numbers_.find(label); found != numbers_.end()) return found->second;
  if (label.empty() || label.size() > kLabelBytesMax)
    return Error{place + ": a node's name is " + quoted(label) + "; expected 1 to " +
                 std::to_string(kLabelBytesMax) + " bytes"};
  if (labels_.size() == kNodesMax)
    return Error{place + ": the graph is too large; expected at most " + std::to_string(kNodesMax) +
                 " nodes"};
  const auto number = static_cast<std::uint32_t>(labels_.size());
  labels_.emplace_back(label);
  numbers_.emplace(label, number);
  return number;
}

std::optional<std::uint32_t> GraphBuilder::find(std::string_view label) const {
  const auto found = numbers_.find(label);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

Status GraphBuilder::link(const std::string& place, std::uint32_t from, std::uint32_t to, double weight) {
  if (from == to)
    return Error{place + ": node " + quoted(labels_[from]) +
                 " is linked to itself; expected a link between two different nodes"};
  if (!directed && from > to) std::swap(from, to);
  const auto [known, is_new] = edges_.try_emplace({from, to}, Known{weight, place});
  if (!is_new && known->second.weight != weight)
    return Error{place + ": the link between " + quoted(labels_[from]) + " and " + quoted(labels_[to]) +
                 " has the weight " + format_number(weight) + ", but " + format_number(known->second.weight) +
                 " at " + known->second.place + "; expected one weight per link"};
  return Done{};
}

bool GraphBuilder::is_numbered() const {
  return std::all_of(labels_.begin(), labels_.end(),
                     [](const auto& label) { return node_number(label).has_value(); });
}

std::optional<std::uint32_t> GraphBuilder::missing_number() const {
  for (std::uint32_t i = 0; i < labels_.size(); ++i)
    if (!find(std::to_string(i))) return i;
  return std::nullopt;
}

Result<GraphFile> GraphBuilder::finish() && {
  if (edges_.empty()) return Error{"the graph has no links; expected at least one"};
  GraphFile graph;
  graph.nodes = static_cast<std::uint32_t>(labels_.size());
  graph.directed = directed;
  const bool numbered = is_numbered() && !missing_number();
  const auto name = [&](std::uint32_t node) { return numbered ? *node_number(labels_[node]) : node; };
  for (const auto& [ends, known] : edges_) {
    GraphFile::Edge edge{name(ends.first), name(ends.second), known.weight};
    if (!directed && edge.from > edge.to) std::swap(edge.from, edge.to);
    graph.edges.push_back(edge);
  }
  std::sort(graph.edges.begin(), graph.edges.end(),
            [](const auto& a, const auto& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
  for (const bool backwards : {false, true}) {
    if (backwards && !directed) break;
    const auto lost = unreached(backwards);
    if (!lost) continue;
    const std::string one = quoted(labels_[backwards ? *lost : 0]),
                      other = quoted(labels_[backwards ? 0 : *lost]);
    return Error{directed
                     ? "no path leads from node " + one + " to node " + other +
                           "; expected a directed graph in which every node reaches every other"
                     : "node " + other + " is not connected to node " + one + "; expected a connected graph"};
  }
  if (!numbered) graph.labels = std::move(labels_);
  return graph;
}

std::optional<std::uint32_t> GraphBuilder::unreached(bool backwards) const {
  std::vector<std::vector<std::uint32_t>> onward(labels_.size());
  for (const auto& [ends, known] : edges_) {
    if (!directed || !backwards) onward[ends.first].push_back(ends.second);
    if (!directed || backwards) onward[ends.second].push_back(ends.first);
  }
  std::vector<bool> seen(labels_.size());
  std::vector<std::uint32_t> open{0};
  seen[0] = true;
  while (!open.empty()) {
    const std::uint32_t node = open.back();
    open.pop_back();
    for (const std::uint32_t next : onward[node]) {
      if (seen[next]) continue;
      seen[next] = true;
      open.push_back(next);
    }
  }
  const auto lost = std::find(seen.begin(), seen.end(), false);
  if (lost == seen.end()) return std::nullopt;
  return static_cast<std::uint32_t>(lost - seen.begin());
}

std::string printable(std::string_view text, std::size_t most) {
  std::string shown(text.substr(0, most));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }, '?');
  return shown + (text.size() > most ? "..." : "");
}

std::string quoted(std::string_view text, std::size_t most) { return "'" + printable(text, most) + "'"; }

std::string at_line(std::size_t line) { return "line " + std::to_string(line); }

std::optional<std::uint32_t> node_number(std::string_view text) {
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  return parse_number<std::uint32_t>(text);
}

Result<double> parse_weight(const std::string& place, std::string_view text) {
  const auto weight = parse_number<double>(text);
  if (weight && *weight >= 1 / kWeightMax && *weight <= kWeightMax) return *weight;
  return Error{place + ": the weight is " + quoted(text) + "; expected a number from " +
               format_number(1 / kWeightMax) + " to " + format_number(kWeightMax)};
}

std::string_view cut_off(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return part;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return small;
}

}  // namespace starling::topologies
