#include "training/runs/experiment/settings/toml_text.h"

#include "base/toml_keys.h"
#include "training/runs/records/files.h"

namespace starling::training {

Result<std::string> read_toml(const std::string& path) {
  auto text = read_text(path, kLargestExperimentFile);
  if (!text) return text;
  if (const auto line = line_of_deep_key(*text)) {
    return Error{path + ":" + std::to_string(*line) + ": a key has more than " + std::to_string(kKeyDotsMax) +
                 " dots"};
  }
  return text;
}

}  // namespace starling::training
