#include "cli/commands/run/contents.h"

#include "cli/shell/output.h"
#include "datasets/description.h"
#include "lab/made_from.h"
#include "training/learning/recipe.h"

namespace starling::cli {

Result<std::map<std::string, std::string>> contents_now(const training::Experiment& experiment,
                                                        Materials& materials) {
  datasets::keep_fingerprint(materials.data);
  const auto own = training::load_own_data(experiment, data_root(), materials.data);
  if (!own) return own.error();
  return lab::contents_of(experiment, materials.data, *own);
}

void warn_of_changes(const training::Experiment& experiment, const std::map<std::string, std::string>& now,
                     const std::string& file) {
  for (const auto& [name, hash] : lab::by_names(experiment, now)) {
    const auto before = experiment.contents.find(name);
    if (before != experiment.contents.end() && before->second != hash)
      warn("the content of " + name + " has changed since a run wrote " + file);
  }
}

}  // namespace starling::cli
