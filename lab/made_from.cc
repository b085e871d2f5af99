#include "lab/made_from.h"

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "base/program.h"
#include "datasets/description.h"
#include "kernels/cpu/processor.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/files.h"

namespace starling::lab {
namespace {

constexpr const char* kData = "data.source";
constexpr const char* kFirstParameters = "model.init";

Result<std::string> hash_of_file(const std::string& path) {
  const auto file = training::InputFile::open(path);
  if (!file) return file.error();
  std::uint64_t hash = 0;
  std::vector<std::byte> piece(1 << 20);
  for (std::size_t at = 0; at < file->size();) {
    const MutableBytes part = MutableBytes(piece).first(std::min(piece.size(), file->size() - at));
    if (Status read = file->read(at, part); !read) return read.error();
    hash = hash64(Bytes(part), hash);
    at += part.size();
  }
  return to_string(PeerId{hash});
}

}  // namespace

Result<std::map<std::string, std::string>> contents_of(const training::Experiment& experiment,
                                                       const datasets::DataPair& data) {
  std::map<std::string, std::string> contents;
  contents[kData] = to_string(PeerId{datasets::description_of(data).fingerprint});
  if (experiment.model.init) {
    auto hash = hash_of_file(*experiment.model.init);
    if (!hash) return Error{std::string(kFirstParameters) + ": " + hash.error().message};
    contents[kFirstParameters] = std::move(*hash);
  }
  return contents;
}

Result<training::MadeFrom> made_from(const training::Experiment& experiment, const datasets::DataPair& data) {
  auto contents = contents_of(experiment, data);
  if (!contents) return contents.error();
  training::MadeFrom made{.program = version(), .processor = "", .contents = std::move(*contents)};
  for (const auto& set : kernels::cpu::instruction_sets())
    if (set.there) made.processor = set.name;
  return made;
}

std::string changed_content(const training::Experiment& experiment,
                            const std::map<std::string, std::string>& before,
                            const std::map<std::string, std::string>& now) {
  for (const auto& [key, hash] : now) {
    const auto earlier = before.find(key);
    if (earlier == before.end() || earlier->second == hash) continue;
    const training::Setting* setting = training::find_setting(key);
    const auto value = setting == nullptr ? std::nullopt : setting->get(experiment);
    return key + ": the content of " + value.value_or("this") + " has changed since";
  }
  return "";
}

}  // namespace starling::lab
