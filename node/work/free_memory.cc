#include "node/work/free_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.h"

namespace starling::node {
namespace {

namespace fs = std::filesystem;

// The files of a control group, in its folder.
struct GroupFiles {
  const char *limit, *used, *reclaimable;  // the last: the key in memory.stat
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};

std::optional<std::size_t> number_in_file(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  return file >> word ? parse_number<std::size_t>(word) : std::nullopt;
}

// The number after `key` in a file of lines "KEY NUMBER".
std::optional<std::size_t> number_after(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first, second;
    if (words >> first >> second && first == key) return parse_number<std::size_t>(second);
  }
  return std::nullopt;
}

void lower(std::optional<std::size_t>& least, std::size_t value) {
  least = std::min(least.value_or(value), value);
}

// What the limits of the group, and of those that contain it, leave. `group`: as in /proc/self/cgroup; a
// container may see only its own group, as the root.
void lower_to_group(std::optional<std::size_t>& least, const fs::path& groups, const fs::path& group,
                    const GroupFiles& files) {
  for (fs::path at = group.relative_path();; at = at.parent_path()) {
    const fs::path folder = groups / at;
    const auto limit = number_in_file(folder / files.limit), used = number_in_file(folder / files.used);
    if (limit && used) {
      const std::size_t cached =
          std::min(*used, number_after(folder / "memory.stat", files.reclaimable).value_or(0));
      lower(least, *limit - std::min(*limit, *used - cached));
    }
    if (at.empty()) return;
  }
}

void lower_to_groups(std::optional<std::size_t>& least, const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  const fs::path groups = root / "sys/fs/cgroup";
  for (std::string line; std::getline(file, line);) {  // "NUMBER:CONTROLLERS:/GROUP"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      group = line.substr(second + 1);
    if (controllers.empty()) lower_to_group(least, groups, group, kVersion2);
    if (controllers == "memory") lower_to_group(least, groups / "memory", group, kVersion1);
  }
}

}  // namespace

std::optional<std::size_t> free_memory(const std::string& root) {
  std::optional<std::size_t> least;
  const fs::path proc = fs::path(root) / "proc";
  if (const auto available = number_after(proc / "meminfo", "MemAvailable:")) {
    const std::size_t swap = number_after(proc / "meminfo", "SwapFree:").value_or(0);
    least = (*available + swap) * 1024;
  }
  lower_to_groups(least, root);
  rlimit own{};
  const auto pages = number_in_file(proc / "self/statm");
  if (pages && ::getrlimit(RLIMIT_AS, &own) == 0 && own.rlim_cur != RLIM_INFINITY) {
    const std::size_t used = *pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    lower(least, own.rlim_cur - std::min<std::size_t>(own.rlim_cur, used));
  }
  return least;
}

}  // namespace starling::node
