#include "topologies/graph_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <utility>

#include "base/text.h"

namespace starling::topologies {
namespace {

constexpr std::size_t kLabelBytesMax = 64;  // as for names of peers
constexpr std::uint32_t kNodesMax = 65'536;

// For messages: at most `most` bytes, without control characters.
std::string printable(std::string_view text, std::size_t most) {
  std::string shown(text.substr(0, most));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }, '?');
  return shown + (text.size() > most ? "..." : "");
}
std::string quoted(std::string_view text) { return "'" + printable(text, 80) + "'"; }

std::string at_line(std::size_t line) { return "line " + std::to_string(line); }

// A whole number without a sign or a leading zero.
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

// Collects the nodes and links of a graph and checks them. `place` is their place in the text.
class Builder {
 public:
  bool directed = false;

  // The node with this label, which is added if it is new.
  Result<std::uint32_t> node(const std::string& place, std::string_view label) {
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
  std::optional<std::uint32_t> find(std::string_view label) const {
    const auto found = numbers_.find(label);
    if (found == numbers_.end()) return std::nullopt;
    return found->second;
  }

  Status link(const std::string& place, std::uint32_t from, std::uint32_t to, double weight) {
    if (from == to)
      return Error{place + ": node " + quoted(labels_[from]) +
                   " is linked to itself; expected a link between two different nodes"};
    if (!directed && from > to) std::swap(from, to);
    const auto [known, is_new] = edges_.try_emplace({from, to}, Known{weight, place});
    if (!is_new && known->second.weight != weight)
      return Error{place + ": the link between " + quoted(labels_[from]) + " and " + quoted(labels_[to]) +
                   " has the weight " + format_number(weight) + ", but " +
                   format_number(known->second.weight) + " at " + known->second.place +
                   "; expected one weight per link"};
    return Done{};
  }

  // Whether every label is a number; the smallest number that is missing if they must be 0 to n - 1.
  bool is_numbered() const {
    return std::all_of(labels_.begin(), labels_.end(),
                       [](const auto& l) { return node_number(l).has_value(); });
  }
  std::optional<std::uint32_t> missing_number() const {
    for (std::uint32_t i = 0; i < labels_.size(); ++i)
      if (!find(std::to_string(i))) return i;
    return std::nullopt;
  }

  // If the labels are the numbers 0 to n - 1, these are the numbers of the nodes.
  Result<GraphFile> finish() && {
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
      return Error{directed ? "no path leads from node " + one + " to node " + other +
                                  "; expected a directed graph in which every node reaches every other"
                            : "node " + other + " is not connected to node " + one +
                                  "; expected a connected graph"};
    }
    if (!numbered) graph.labels = std::move(labels_);
    return graph;
  }

 private:
  struct Known {
    double weight;
    std::string place;
  };

  // A node that node 0 does not reach (backwards: that does not reach node 0).
  std::optional<std::uint32_t> unreached(bool backwards) const {
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

  std::vector<std::string> labels_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;  // of the labels
  std::map<std::pair<std::uint32_t, std::uint32_t>, Known> edges_;
};

// Removes the part of `text` up to `separator`, and the separator, and returns the part.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return part;
}

constexpr std::string_view kSpace = " \t\r\f\v";
constexpr std::string_view kSeparators = " \t\r\f\v,;";

std::vector<std::string_view> words(std::string_view line, std::string_view separators = kSpace) {
  std::vector<std::string_view> found;
  for (std::size_t begin = line.find_first_not_of(separators); begin != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(separators, begin), line.size());
    found.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(separators, end);
  }
  return found;
}

constexpr std::string_view kPrefix = "edges:";
constexpr std::string_view kFrom = "file=";
constexpr std::string_view kDirected = "directed";
constexpr std::size_t kFileBytesMax = 255;  // of its name
constexpr std::string_view kHexDigits = "0123456789ABCDEF";

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '~' || c == '-';
}

std::string escaped(std::string_view label) {
  std::string text;
  for (const char c : label) {
    if (is_plain(c)) {
      text += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      text += {'%', kHexDigits[byte / 16], kHexDigits[byte % 16]};
    }
  }
  return text;
}

// nullopt for a character that is not allowed or an invalid escape.
std::optional<std::string> unescaped(std::string_view text) {
  std::string label;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_plain(text[i])) {
      label += text[i];
      continue;
    }
    if (text[i] != '%' || i + 2 >= text.size()) return std::nullopt;
    const std::size_t high = kHexDigits.find(text[i + 1]), low = kHexDigits.find(text[i + 2]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    label += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return label;
}

// The key for the weights of edges in a GraphML document, and their default.
struct WeightKey {
  std::string id, usual = "1";
};

WeightKey weight_key(pugi::xml_node root) {
  WeightKey found;
  for (const pugi::xml_node key : root.children("key")) {
    const std::string_view target = key.attribute("for").as_string("all");
    if (std::string_view(key.attribute("attr.name").value()) != "weight") continue;
    if (target != "edge" && target != "all") continue;
    found.id = key.attribute("id").value();
    if (const auto given = key.child("default")) found.usual = given.text().get();
  }
  return found;
}

// The links "0:1,2*0.5;1:2", between nodes below `count`. The Error does not name the topology.
Status add_links(Builder& builder, std::string_view rest, std::uint32_t count) {
  while (!rest.empty()) {
    std::string_view group = take(rest, ';');
    const std::string_view first = take(group, ':');
    const auto from = node_number(first);
    for (bool more = true; more;) {
      more = group.find(',') != std::string_view::npos;
      std::string_view target = take(group, ',');
      const std::string place = "link " + printable(first, 10) + ":" + printable(target, 40);
      const std::size_t star = target.find('*');
      double weight = 1;
      if (star != std::string_view::npos) {
        const auto given = parse_weight(place, target.substr(star + 1));
        if (!given) return given.error();
        weight = *given;
      }
      const auto to = node_number(target.substr(0, star));
      if (!from || !to || *from >= count || *to >= count)
        return Error{place + " is invalid; expected two numbers of nodes below " + std::to_string(count)};
      if (Status linked = builder.link(place, *from, *to, weight); !linked) return linked;
    }
  }
  return Done{};
}

}  // namespace

Result<GraphFile> read_edge_list(std::string_view text) {
  Builder builder;
  std::size_t number = 0;
  for (bool first = true; !text.empty();) {
    ++number;
    const std::string_view line = take(text, '\n');
    const auto columns = words(line.substr(0, line.find_first_of("#%")), kSeparators);
    if (columns.empty()) continue;
    const std::string place = at_line(number);
    const bool header = first && columns.size() == 1 && columns[0] == kDirected;
    first = false;
    if (header) {
      builder.directed = true;
      continue;
    }
    if (columns.size() != 2 && columns.size() != 3)
      return Error{place + " has " + std::to_string(columns.size()) +
                   (columns.size() == 1 ? " column" : " columns") + "; expected 'a b' or 'a b weight'"};
    double weight = 1;
    if (columns.size() == 3) {
      const auto given = parse_weight(place, columns[2]);
      if (!given) return given.error();
      weight = *given;
    }
    const auto from = builder.node(place, columns[0]);
    if (!from) return from.error();
    const auto to = builder.node(place, columns[1]);
    if (!to) return to.error();
    if (Status linked = builder.link(place, *from, *to, weight); !linked) return linked.error();
  }
  if (const auto missing = builder.missing_number(); builder.is_numbered() && missing)
    return Error{"the nodes are numbered, but node " + std::to_string(*missing) +
                 " has no link; expected numbers from 0 without a gap, or names"};
  return std::move(builder).finish();
}

Result<GraphFile> read_graphml(std::string_view text) {
  pugi::xml_document document;
  const auto line = [&](std::ptrdiff_t offset) {
    const auto before = text.substr(0, static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0)));
    return at_line(1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')));
  };
  const auto place = [&](pugi::xml_node node) { return line(node.offset_debug()); };
  const pugi::xml_parse_result parsed =
      document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) return Error{line(parsed.offset) + " is not XML: " + parsed.description()};
  const pugi::xml_node root = document.child("graphml");
  const pugi::xml_node graph = root.child("graph");
  if (!graph) return Error{"the document has no <graph> in a <graphml>; expected GraphML"};
  if (const auto second = graph.next_sibling("graph"))
    return Error{place(second) + ": there is a second <graph>; expected one"};

  Builder builder;
  const std::string_view direction = graph.attribute("edgedefault").value();
  if (direction != "directed" && direction != "undirected")
    return Error{place(graph) + ": edgedefault is " + quoted(direction) +
                 "; expected directed or undirected"};
  builder.directed = direction == "directed";

  for (const pugi::xml_node node : graph.children("node")) {
    if (node.child("graph"))
      return Error{place(node) + ": a node contains a graph; expected nodes without one"};
    const std::string_view id = node.attribute("id").value();
    if (builder.find(id))
      return Error{place(node) + ": node " + quoted(id) + " is declared twice; expected once"};
    if (const auto made = builder.node(place(node), id); !made) return made.error();
  }
  if (const auto hyperedge = graph.child("hyperedge"))
    return Error{place(hyperedge) + ": there is a hyperedge; expected edges between two nodes"};

  const WeightKey key = weight_key(root);
  for (const pugi::xml_node edge : graph.children("edge")) {
    const std::string where = place(edge);
    if (const auto own = edge.attribute("directed"); own && own.as_bool() != builder.directed)
      return Error{where + ": the edge is " + (own.as_bool() ? "directed" : "undirected") +
                   ", but edgedefault is not; expected the same for all edges"};
    std::array<std::uint32_t, 2> ends{};
    for (std::size_t end = 0; end < 2; ++end) {
      const std::string_view id = edge.attribute(end == 0 ? "source" : "target").value();
      const auto found = builder.find(id);
      if (!found)
        return Error{where + ": node " + quoted(id) +
                     " is not declared; expected an edge between declared nodes"};
      ends[end] = *found;
    }
    std::string_view value = key.usual;
    for (const pugi::xml_node data : edge.children("data"))
      if (!key.id.empty() && key.id == data.attribute("key").value()) value = data.text().get();
    const auto trimmed = words(value);
    const auto weight = parse_weight(where, trimmed.size() == 1 ? trimmed[0] : value);
    if (!weight) return weight.error();
    if (Status linked = builder.link(where, ends[0], ends[1], *weight); !linked) return linked.error();
  }
  return std::move(builder).finish();
}

Result<GraphFile> read_graph_name(std::string_view name) {
  const auto wrong = [&](const std::string& what) { return Error{"topology " + quoted(name) + ": " + what}; };
  if (name.size() > kGraphNameBytesMax)
    return wrong("the name has " + std::to_string(name.size()) + " bytes; expected at most " +
                 std::to_string(kGraphNameBytesMax));
  if (!name.starts_with(kPrefix)) return wrong("expected 'edges:' at the start");
  std::string_view rest = name.substr(kPrefix.size());

  Builder builder;
  std::string_view nodes = take(rest, ';');
  std::string file;
  if (nodes.starts_with(kFrom)) {
    const auto given = unescaped(nodes.substr(kFrom.size()));
    if (!given || given->empty() || given->size() > kFileBytesMax || !is_printable(*given))
      return wrong("the name of its file is " + quoted(nodes.substr(kFrom.size())) + "; expected 1 to " +
                   std::to_string(kFileBytesMax) + " letters, digits, . _ ~ - and %XX");
    file = *given;
    nodes = take(rest, ';');
  }
  if (nodes == kDirected) {
    builder.directed = true;
    nodes = take(rest, ';');
  }
  std::uint32_t count = 0;
  if (const auto given = node_number(nodes); given && *given >= 2 && *given <= kNodesMax) {
    for (; count < *given; ++count) STARLING_CHECK(builder.node("", std::to_string(count)).ok());
  } else if (nodes.find(',') == std::string_view::npos) {
    return wrong(quoted(nodes) + " is neither the number of nodes, from 2 to " + std::to_string(kNodesMax) +
                 ", nor their names separated by commas");
  } else {
    for (bool more = true; more; ++count) {
      more = nodes.find(',') != std::string_view::npos;
      const std::string_view text = take(nodes, ',');
      const auto label = unescaped(text);
      if (!label)
        return wrong("a node's name is " + quoted(text) + "; expected letters, digits, . _ ~ - and %XX");
      if (builder.find(*label)) return wrong("node " + quoted(*label) + " is declared twice; expected once");
      if (const auto made = builder.node("node " + std::to_string(count), *label); !made)
        return wrong(made.error().message);
    }
  }
  if (Status linked = add_links(builder, rest, count); !linked) return wrong(linked.error().message);
  auto graph = std::move(builder).finish();
  if (!graph) return wrong(graph.error().message);
  graph->file = std::move(file);
  return graph;
}

Result<std::string> graph_name(const GraphFile& graph) {
  std::string name(kPrefix);
  if (!graph.file.empty()) name += std::string(kFrom) + escaped(graph.file) + ";";
  if (graph.directed) name += std::string(kDirected) + ";";
  if (graph.labels.empty()) name += std::to_string(graph.nodes);
  for (std::size_t i = 0; i < graph.labels.size(); ++i) name += (i > 0 ? "," : "") + escaped(graph.labels[i]);
  std::optional<std::uint32_t> from;
  for (const GraphFile::Edge& edge : graph.edges) {
    name += edge.from == from ? "," : ";" + std::to_string(edge.from) + ":";
    from = edge.from;
    name += std::to_string(edge.to);
    if (edge.weight != 1) name += "*" + format_number(edge.weight);
  }
  if (name.size() <= kGraphNameBytesMax) return name;
  return Error{"the graph is too large for the name of a topology: its " +
               std::to_string(graph.edges.size()) + " links take " + std::to_string(name.size()) +
               " bytes; expected at most " + std::to_string(kGraphNameBytesMax)};
}

std::string shown_name(std::string_view name) {
  const std::string head = std::string(kPrefix) + std::string(kFrom);
  if (!name.starts_with(head)) return std::string(name);
  const auto file = unescaped(name.substr(head.size(), name.find(';') - head.size()));
  return file && is_printable(*file) ? "file:" + *file : std::string(name);
}

}  // namespace starling::topologies
