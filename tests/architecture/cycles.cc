#include "tests/architecture/cycles.h"

#include <algorithm>
#include <map>
#include <set>

namespace starling::architecture {
namespace {

using Graph = std::map<std::string, std::set<std::string>>;

std::string unit_of(const std::string& path) { return path.substr(0, path.rfind('.')); }

Graph graph_of(const std::vector<Source>& sources) {
  Graph graph;
  for (const Source& source : sources) {
    const std::string unit = unit_of(source.path);
    for (const Include& include : own_includes(source)) {
      if (unit_of(include.name) != unit) graph[unit].insert(unit_of(include.name));
    }
  }
  return graph;
}

// All units that `unit` reaches by one or more arrows.
std::set<std::string> reached_from(const std::string& unit, const Graph& graph) {
  std::set<std::string> reached;
  std::vector<std::string> left{unit};
  while (!left.empty()) {
    const auto next = graph.find(left.back());
    left.pop_back();
    if (next == graph.end()) continue;
    for (const auto& to : next->second) {
      if (reached.insert(to).second) left.push_back(to);
    }
  }
  return reached;
}

}  // namespace

std::vector<std::vector<std::string>> include_cycles(const std::vector<Source>& sources) {
  const Graph graph = graph_of(sources);
  std::map<std::string, std::set<std::string>> reached;
  for (const auto& [unit, included] : graph) reached[unit] = reached_from(unit, graph);

  std::vector<std::vector<std::string>> cycles;
  std::set<std::string> done;
  for (const auto& [unit, below] : reached) {
    if (!below.contains(unit) || done.contains(unit)) continue;
    std::vector<std::string> cycle;
    for (const auto& other : below) {
      const auto back = reached.find(other);
      if (back != reached.end() && back->second.contains(unit)) cycle.push_back(other);
    }
    done.insert(cycle.begin(), cycle.end());
    cycles.push_back(std::move(cycle));
  }
  return cycles;
}

}  // namespace starling::architecture
