#include "datasets/inputs.h"

#include <sys/stat.h>
#include <map>
#include <mutex>
#include <utility>

namespace starling::datasets {
namespace {

using File = std::pair<dev_t, ino_t>;

std::optional<File> file_at(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return File{status.st_dev, status.st_ino};
}

// Never destroyed: threads may read until the process ends.
struct Inputs {
  std::mutex mutex;
  std::map<File, std::string> paths;
};
Inputs& inputs() {
  static Inputs& all = *new Inputs;
  return all;
}

}  // namespace

void note_input(const std::string& path) {
  const auto file = file_at(path);
  if (!file) return;
  const std::lock_guard lock(inputs().mutex);
  inputs().paths.insert_or_assign(*file, path);
}

std::optional<std::string> input_at(const std::string& path) {
  const auto file = file_at(path);
  if (!file) return std::nullopt;
  const std::lock_guard lock(inputs().mutex);
  const auto found = inputs().paths.find(*file);
  // A new file may have the number of one that was removed.
  if (found == inputs().paths.end() || file_at(found->second) != file) return std::nullopt;
  return found->second;
}

}  // namespace starling::datasets
