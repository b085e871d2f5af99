#include "tests/architecture/style.h"

#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "tests/architecture/rules.h"
#include "tests/architecture/structure.h"

namespace starling::architecture {
namespace {

// The number of UTF-8 characters, which is the width in an editor.
int columns(std::string_view line) {
  int count = 0;
  for (const char c : line) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

bool is_header(const std::string& path) { return path.ends_with(".h") || path.ends_with(".cuh"); }

void add_if_over(int limit, const Finding& finding, std::vector<Finding>& findings) {
  if (finding.number > limit) findings.push_back(finding);
}

// The line without link targets: "[text](target)" becomes "text".
std::string without_targets(std::string line) {
  for (auto at = line.find("]("); at != std::string::npos; at = line.find("](", at + 1)) {
    const auto end = line.find(')', at);
    if (end != std::string::npos) line.erase(at + 1, end - at);
  }
  return line;
}

// The output of a command on both streams.
std::string output_of(const std::string& command) {
  struct Close {
    void operator()(std::FILE* file) const { ::pclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> pipe(::popen((command + " 2>&1").c_str(), "r"));
  std::string text;
  char buffer[4096];
  for (std::size_t n = 1; pipe && n > 0;) {
    n = std::fread(buffer, 1, sizeof buffer, pipe.get());
    text.append(buffer, n);
  }
  return text;
}

std::string formatter() {
  for (const std::string name : {"clang-format-14", "clang-format"}) {
    if (output_of(name + " --version").find("version 14.") != std::string::npos) return name;
  }
  return {};
}

}  // namespace

std::vector<Finding> text_findings(const Source& source) {
  std::vector<Finding> findings;
  int wide = 0;
  for (const auto& line : source.text) wide += columns(line) > kLineColumns ? 1 : 0;
  add_if_over(0, {"line-columns", source.path, wide}, findings);
  add_if_over(kFileLines, {"file-lines", source.path, static_cast<int>(source.text.size())}, findings);
  if (is_header(source.path) && !source.text.front().starts_with("// "))
    findings.push_back({"header-prose", source.path, 1});
  return findings;
}

std::vector<Finding> structure_findings(const Source& source) {
  std::vector<Finding> findings;
  const Structure structure = structure_of(source);
  for (const auto& function : structure.functions)
    add_if_over(kFunctionLines, {"function-lines", source.path + ":" + function.name, function.lines},
                findings);
  for (const auto& type : structure.classes) {
    add_if_over(kClassMethods, {"class-methods", source.path + ":" + type.name, type.methods}, findings);
    add_if_over(kClassMembers, {"class-members", source.path + ":" + type.name, type.members}, findings);
  }
  return findings;
}

std::vector<Finding> name_findings(const std::vector<Source>& sources) {
  static const std::set<std::string> kOverloads = {"operator", "to_string", "to_json", "name"};
  std::map<std::string, std::set<std::string>> rooms_of_names;
  for (const auto& source : sources) {
    if (!is_header(source.path) || source.path.starts_with("tests/")) continue;
    // Back ends make the same operations, each in a namespace of its own.
    const std::string room = source.path.starts_with("kernels/") ? "kernels" : room_of(source.path);
    for (const auto& name : structure_of(source).names) rooms_of_names[name].insert(room);
  }
  std::vector<Finding> findings;
  for (const auto& [name, rooms] : rooms_of_names) {
    if (!kOverloads.contains(name))
      add_if_over(1, {"shared-name", name, static_cast<int>(rooms.size())}, findings);
  }
  return findings;
}

std::vector<Finding> document_findings(const std::string& path, std::string_view text) {
  int wide = 0;
  bool code = false;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const bool fence = line.find("```") != std::string::npos;
    code = code != fence;
    if (code || fence || line.starts_with("|") || line.starts_with("#")) continue;
    wide += columns(without_targets(line)) > kDocumentColumns ? 1 : 0;
  }
  std::vector<Finding> findings;
  add_if_over(0, {"document-columns", path, wide}, findings);
  return findings;
}

std::optional<std::vector<Finding>> format_findings(const std::filesystem::path& root,
                                                    const std::vector<Source>& sources) {
  const std::string program = formatter();
  if (program.empty()) return std::nullopt;
  std::string command = "cd '" + root.string() + "' && " + program + " --dry-run -Werror";
  for (const auto& source : sources) command += " " + source.path;
  std::set<std::string> paths;
  std::istringstream lines(output_of(command));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("code should be clang-formatted") != std::string::npos)
      paths.insert(line.substr(0, line.find(':')));
  }
  std::vector<Finding> findings;
  for (const auto& path : paths) findings.push_back({"format", path, 1});
  return findings;
}

}  // namespace starling::architecture
