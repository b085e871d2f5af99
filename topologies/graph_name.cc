// Names of graphs: read_graph_name(), graph_name(), shown_name() and name_without_file() of
// topologies/graph_file.h.
#include <optional>
#include <utility>

#include "base/text.h"
#include "topologies/graph_builder.h"
#include "topologies/graph_file.h"

namespace starling::topologies {
namespace {

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

// The links "0:1,2*0.5;1:2", between nodes below `count`. The Error does not name the topology.
Status add_links(GraphBuilder& builder, std::string_view rest, std::uint32_t count) {
  while (!rest.empty()) {
    std::string_view group = cut_off(rest, ';');
    const std::string_view first = cut_off(group, ':');
    const auto from = node_number(first);
    for (bool more = true; more;) {
      more = group.find(',') != std::string_view::npos;
      std::string_view target = cut_off(group, ',');
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

Result<GraphFile> read_graph_name(std::string_view name) {
  const auto wrong = [&](const std::string& what) { return Error{"topology " + quoted(name) + ": " + what}; };
  if (name.size() > kGraphNameBytesMax)
    return wrong("the name has " + std::to_string(name.size()) + " bytes; expected at most " +
                 std::to_string(kGraphNameBytesMax));
  if (!name.starts_with(kPrefix)) return wrong("expected 'edges:' at the start");
  std::string_view rest = name.substr(kPrefix.size());

  GraphBuilder builder;
  std::string_view nodes = cut_off(rest, ';');
  std::string file;
  if (nodes.starts_with(kFrom)) {
    const auto given = unescaped(nodes.substr(kFrom.size()));
    if (!given || given->empty() || given->size() > kFileBytesMax || !is_printable(*given))
      return wrong("the name of its file is " + quoted(nodes.substr(kFrom.size())) + "; expected 1 to " +
                   std::to_string(kFileBytesMax) + " letters, digits, . _ ~ - and %XX");
    file = *given;
    nodes = cut_off(rest, ';');
  }
  if (nodes == kDirected) {
    builder.directed = true;
    nodes = cut_off(rest, ';');
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
      const std::string_view text = cut_off(nodes, ',');
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

std::string name_without_file(std::string_view name) {
  const std::string head = std::string(kPrefix) + std::string(kFrom);
  if (!name.starts_with(head)) return std::string(name);
  const auto end = name.find(';');
  return std::string(kPrefix) + std::string(end == std::string_view::npos ? "" : name.substr(end + 1));
}

}  // namespace starling::topologies
