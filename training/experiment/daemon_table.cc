#include "training/experiment/daemon_table.h"

#include "training/experiment/experiment_file.h"
#include "training/experiment/toml.h"
#include "training/records/files.h"

namespace starling::training {

Result<std::vector<DaemonEntry>> read_daemon_table(const std::string& path) {
  const auto text = read_text(path, kLargestExperimentFile);
  if (!text) return text.error();
  toml::table file;
  try {
    file = toml::parse(*text, path);
  } catch (const toml::parse_error& error) {
    return Error{path + ", line " + std::to_string(error.source().begin.line) + ": " +
                 std::string(error.description())};
  }
  std::vector<DaemonEntry> entries;
  const toml::node* const node = file.get("daemon");
  if (node == nullptr) return entries;
  if (!node->is_table()) return Error{place(path, *node) + ": daemon: expected a table, [daemon]"};
  for (const auto& [name, value] : *node->as_table()) {
    DaemonEntry entry{std::string(name.str()), {}, place(path, value)};
    const std::string where = entry.place + ": daemon." + entry.key + ": ";
    if (const toml::array* list = value.as_array()) {
      for (const toml::node& element : *list) {
        const auto one = scalar(element);
        if (!one) return Error{where + "expected a list of single values"};
        entry.values.push_back(*one);
      }
      if (list->empty()) return Error{where + "the list is empty"};
    } else if (const auto one = scalar(value)) {
      entry.values.push_back(*one);
    } else {
      return Error{where + "expected a single value"};
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace starling::training
