#include "lab/made_from.h"

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "base/program.h"
#include "datasets/description.h"
#include "kernels/cpu/processor.h"
#include "models/spec_text.h"
#include "topologies/graph_file.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/settings/effects.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/files.h"

namespace starling::lab {
namespace {

constexpr const char* kData = "data.source";
constexpr const char* kFirstParameters = "model.init";
constexpr const char* kOwnData = "data.own_data";

std::string own_key(std::size_t table) { return "peer." + std::to_string(table + 1) + ".own_data"; }

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

// The text that the experiment has for a key of the contents; null: none.
std::string* name_of(training::Experiment& experiment, const std::string& key) {
  const auto unless_unset = [](std::optional<std::string>& text) { return text ? &*text : nullptr; };
  if (key == kData) return &experiment.data.source;
  if (key == kFirstParameters) return unless_unset(experiment.model.init);
  if (key == kOwnData) return unless_unset(experiment.data.own_data);
  for (std::size_t i = 0; i < experiment.own.size(); ++i) {
    if (key != own_key(i)) continue;
    for (auto& [setting, value] : experiment.own[i].values)
      if (setting == kOwnData) return &value;
  }
  return nullptr;
}

}  // namespace

Result<std::map<std::string, std::string>> contents_of(const training::Experiment& experiment,
                                                       const datasets::DataPair& data, const OwnData& own) {
  std::map<std::string, std::string> contents;
  std::uint64_t hash = datasets::description_of(data).fingerprint;
  if (data.tokenizer != nullptr) hash = hash64(data.tokenizer_text(), hash);
  contents[kData] = to_string(PeerId{hash});
  if (data.own != nullptr) contents[kOwnData] = to_string(PeerId{datasets::fingerprint_of(*data.own)});
  if (experiment.model.init) {
    auto its = hash_of_file(*experiment.model.init);
    if (!its) return Error{std::string(kFirstParameters) + ": " + its.error().message};
    contents[kFirstParameters] = std::move(*its);
  }
  add_own_contents(experiment, own, contents);
  return contents;
}

void add_own_contents(const training::Experiment& experiment, const OwnData& own,
                      std::map<std::string, std::string>& contents) {
  training::Experiment named = experiment;
  for (std::size_t i = 0; i < experiment.own.size(); ++i) {
    const std::string* const name = name_of(named, own_key(i));
    const auto found = name == nullptr ? own.end() : own.find(*name);
    if (found == own.end()) continue;
    contents[own_key(i)] = found->second == nullptr
                               ? contents[kData]
                               : to_string(PeerId{datasets::fingerprint_of(*found->second)});
  }
}

std::map<std::string, std::string> by_names(const training::Experiment& experiment,
                                            const std::map<std::string, std::string>& contents) {
  std::map<std::string, std::string> named;
  training::Experiment its = experiment;
  for (const auto& [key, hash] : contents)
    if (const std::string* name = name_of(its, key)) named[*name] = hash;
  return named;
}

training::MadeFrom made_from(std::map<std::string, std::string> contents) {
  training::MadeFrom made{.program = version(), .processor = "", .contents = std::move(contents)};
  for (const auto& set : kernels::cpu::instruction_sets())
    if (set.there) made.processor = set.name;
  return made;
}

Result<training::MadeFrom> made_from(const training::Experiment& experiment, const datasets::DataPair& data,
                                     const OwnData& own) {
  auto contents = contents_of(experiment, data, own);
  if (!contents) return contents.error();
  return made_from(std::move(*contents));
}

std::string changed_content(const training::Experiment& experiment,
                            const std::map<std::string, std::string>& before,
                            const std::map<std::string, std::string>& now) {
  training::Experiment its = experiment;
  for (const auto& [key, hash] : now) {
    const auto earlier = before.find(key);
    if (earlier == before.end() || earlier->second == hash) continue;
    const std::string* const name = name_of(its, key);
    return key + ": the content of " + (name == nullptr ? "this" : *name) + " has changed since";
  }
  return "";
}

training::Experiment without_names(training::Experiment experiment) {
  experiment.gossip.topology = topologies::name_without_file(experiment.gossip.topology);
  if (!experiment.model.layers.empty()) experiment.model.name = models::kUnnamedModel;
  return experiment;
}

std::string kind_of_simulation(const training::Experiment& experiment, const training::Summary& summary) {
  training::Experiment its = without_names(training::as_simulated(experiment));
  for (const auto& [key, hash] : summary.made_from.contents)
    if (std::string* name = name_of(its, key)) *name = hash;
  // What is set may not be what the processor has.
  for (std::uint32_t peer = 0; peer < summary.per_peer.size(); ++peer) {
    const bool own = std::ranges::any_of(
        its.own, [&](const training::OwnSettings& settings) { return settings.peers.contains(peer); });
    if (!own && !summary.per_peer[peer].serves) its.training.precision = summary.per_peer[peer].precision;
  }
  return training::to_toml(its);
}

}  // namespace starling::lab
