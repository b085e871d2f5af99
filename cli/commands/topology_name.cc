#include "cli/commands/topology_name.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "topologies/graph_file.h"

namespace starling::cli {
namespace {

constexpr std::string_view kPrefix = "file:";

Result<std::string> read_text(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return Error{"there is no such file"};
  if (!std::filesystem::is_regular_file(path, error)) return Error{"it is no file but something else"};
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) return Error{error.message()};
  if (bytes > kGraphFileBytesMax)
    return Error{"it has " + std::to_string(bytes) + " bytes; at most " + std::to_string(kGraphFileBytesMax) +
                 " are right"};
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad() || text.size() != bytes) return Error{"it cannot be read"};
  return text;
}

bool is_graphml(const std::filesystem::path& path, std::string_view text) {
  if (path.extension() == ".graphml" || path.extension() == ".xml") return true;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (text[first] == '<' || text.starts_with("\xef\xbb\xbf<"));
}

}  // namespace

Result<std::string> resolve_topology(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::string(name);
  const std::filesystem::path path(name.substr(kPrefix.size()));
  const auto wrong = [&](const Error& error) {
    return Error{"topology '" + std::string(name) + "': " + error.message};
  };
  if (path.empty()) return wrong({"no file is named; file:PATH is right"});
  const auto text = read_text(path);
  if (!text) return wrong(text.error());
  const auto graph =
      is_graphml(path, *text) ? topologies::read_graphml(*text) : topologies::read_edge_list(*text);
  if (!graph) return wrong(graph.error());
  auto resolved = topologies::graph_name(*graph);
  if (!resolved) return wrong(resolved.error());
  return resolved;
}

}  // namespace starling::cli
