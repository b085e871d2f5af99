#include "datasets/readers/unread.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/text.h"

namespace starling::datasets {
namespace {

namespace fs = std::filesystem;

fs::path in_full(const fs::path& path) {
  std::error_code ignored;
  return fs::absolute(path, ignored).lexically_normal();
}

std::string shown_name(const fs::directory_entry& entry) {
  std::error_code ignored;
  const std::string name = entry.path().filename().string();
  return (is_printable(name) ? name : "a name that cannot be printed") +
         (entry.is_directory(ignored) ? "/" : "");
}

}  // namespace

std::string unread_in(const std::string& folder, const std::vector<std::string>& read) {
  constexpr std::size_t kMost = 4;
  std::set<fs::path> used;
  for (const std::string& path : read) used.insert(in_full(path));
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string()[0] != '.' && !used.contains(in_full(at->path())))
      names.push_back(shown_name(*at));
  }
  if (names.empty()) return "";
  std::ranges::sort(names);
  std::string text = "not read in '" + folder + "': " + names.front();
  for (std::size_t i = 1; i < std::min(kMost, names.size()); ++i) text += ", " + names[i];
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

}  // namespace starling::datasets
