// read_graphml() of topologies/graph_file.h.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <pugixml.hpp>

#include "topologies/graph_builder.h"
#include "topologies/graph_file.h"

namespace starling::topologies {
namespace {

constexpr std::string_view kWeight = "weight";

// A document and its text, for the places of its elements.
struct Graphml {
  std::string_view text;
  pugi::xml_document document = {};

  std::string line(std::ptrdiff_t offset) const {
    const auto before = text.substr(0, static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0)));
    return at_line(1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')));
  }
  std::string place(pugi::xml_node node) const { return line(node.offset_debug()); }
};

// The keys of edges: those for weights, and the others.
struct EdgeKeys {
  std::map<std::string, bool, std::less<>> is_weight;  // by id
  std::string usual = "1";                             // the default weight
};

bool looks_like_weight(std::string_view name) {
  return in_small_letters(name).find(kWeight) != std::string::npos;
}

// networkx has one key for whole weights and one for fractions, both with the name "weight".
Result<EdgeKeys> edge_keys(const Graphml& graphml, pugi::xml_node root) {
  EdgeKeys keys;
  pugi::xml_node chosen, similar;
  std::optional<std::string> usual;
  for (const pugi::xml_node key : root.children("key")) {
    const std::string_view target = key.attribute("for").as_string("all");
    if (target != "edge" && target != "all") continue;
    const std::string id = key.attribute("id").value();
    const pugi::xml_attribute given = key.attribute("attr.name");
    const std::string name = given ? given.value() : id;
    const bool is_weight = in_small_letters(name) == kWeight;
    if (!keys.is_weight.emplace(id, is_weight).second && keys.is_weight.at(id) != is_weight)
      return Error{graphml.place(key) + ": the key " + quoted(id) +
                   " is a weight of edges and something else; expected one meaning"};
    if (!is_weight) {
      if (looks_like_weight(name)) similar = key;
      continue;
    }
    chosen = key;
    const pugi::xml_node its = key.child("default");
    if (its && usual && *usual != its.text().get())
      return Error{graphml.place(its) + ": the default weight is " + quoted(its.text().get()) + ", but " +
                   quoted(*usual) + " before; expected one"};
    if (its) usual = its.text().get();
  }
  if (!chosen && similar)
    return Error{graphml.place(similar) + ": the key " + quoted(similar.attribute("attr.name").value()) +
                 " of edges is similar to a weight; expected the name weight, or another name"};
  keys.usual = usual.value_or(keys.usual);
  return keys;
}

// The weight of an edge at `where`.
Result<double> weight_of(const EdgeKeys& keys, pugi::xml_node edge, const std::string& where) {
  std::optional<std::string_view> found;
  for (const pugi::xml_node data : edge.children("data")) {
    const std::string_view id = data.attribute("key").value();
    const auto key = keys.is_weight.find(id);
    if (key == keys.is_weight.end()) {
      if (looks_like_weight(id))
        return Error{where + ": the edge has data of the key " + quoted(id) +
                     ", which no <key> declares for edges; expected a declared key"};
      continue;
    }
    if (!key->second) continue;
    const std::string_view value = trimmed(data.text().get());
    if (found && *found != value)
      return Error{where + ": the edge has the weights " + quoted(*found) + " and " + quoted(value) +
                   "; expected one"};
    found = value;
  }
  return parse_weight(where, found.value_or(trimmed(keys.usual)));
}

Status read_nodes(const Graphml& graphml, pugi::xml_node graph, GraphBuilder& builder) {
  for (const pugi::xml_node node : graph.children("node")) {
    if (node.child("graph"))
      return Error{graphml.place(node) + ": a node contains a graph; expected nodes without one"};
    const std::string_view id = node.attribute("id").value();
    if (builder.find(id))
      return Error{graphml.place(node) + ": node " + quoted(id) + " is declared twice; expected once"};
    if (const auto made = builder.node(graphml.place(node), id); !made) return made.error();
  }
  return Done{};
}

Status read_edge(const EdgeKeys& keys, pugi::xml_node edge, const std::string& where, GraphBuilder& builder) {
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
  const auto weight = weight_of(keys, edge, where);
  if (!weight) return weight.error();
  return builder.link(where, ends[0], ends[1], *weight);
}

}  // namespace

Result<GraphFile> read_graphml(std::string_view text) {
  Graphml graphml{text};
  const pugi::xml_parse_result parsed =
      graphml.document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) return Error{graphml.line(parsed.offset) + " is not XML: " + parsed.description()};
  const pugi::xml_node root = graphml.document.child("graphml");
  const pugi::xml_node graph = root.child("graph");
  if (!graph) return Error{"the document has no <graph> in a <graphml>; expected GraphML"};
  if (const auto second = graph.next_sibling("graph"))
    return Error{graphml.place(second) + ": there is a second <graph>; expected one"};

  GraphBuilder builder;
  const std::string_view direction = graph.attribute("edgedefault").value();
  if (direction != "directed" && direction != "undirected")
    return Error{graphml.place(graph) + ": edgedefault is " + quoted(direction) +
                 "; expected directed or undirected"};
  builder.directed = direction == "directed";
  if (Status read = read_nodes(graphml, graph, builder); !read) return read.error();
  if (const auto hyperedge = graph.child("hyperedge"))
    return Error{graphml.place(hyperedge) + ": there is a hyperedge; expected edges between two nodes"};

  const auto keys = edge_keys(graphml, root);
  if (!keys) return keys.error();
  for (const pugi::xml_node edge : graph.children("edge"))
    if (Status read = read_edge(*keys, edge, graphml.place(edge), builder); !read) return read.error();
  return std::move(builder).finish();
}

}  // namespace starling::topologies
