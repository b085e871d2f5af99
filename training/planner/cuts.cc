#include "training/planner/cuts.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace starling::training {
namespace {

using LayerSet = std::vector<std::uint64_t>;  // a bit for each layer

bool has_layer(const LayerSet& set, std::size_t layer) { return (set[layer / 64] >> (layer % 64) & 1) != 0; }

bool contains_set(const LayerSet& large, const LayerSet& small) {
  for (std::size_t word = 0; word < large.size(); ++word)
    if ((small[word] & ~large[word]) != 0) return false;
  return true;
}

// Every layer with all that it needs, directly or through others.
std::vector<LayerSet> needs_of(const PipelineProfile& profile) {
  const std::size_t n = profile.layers.size();
  std::vector<LayerSet> needs;
  for (std::size_t i = 0; i < n; ++i) needs.emplace_back((n + 63) / 64, 0);
  std::vector<std::size_t> missing(n, 0);
  for (const auto& readers : profile.readers)
    for (const std::size_t reader : readers) ++missing[reader];
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < n; ++i)
    if (missing[i] == 0) ready.push_back(i);
  for (std::size_t done = 0; done < ready.size(); ++done) {
    const std::size_t layer = ready[done];
    needs[layer][layer / 64] |= std::uint64_t{1} << (layer % 64);
    for (const std::size_t reader : profile.readers[layer]) {
      for (std::size_t word = 0; word < needs[reader].size(); ++word)
        needs[reader][word] |= needs[layer][word];
      if (--missing[reader] == 0) ready.push_back(reader);
    }
  }
  return needs;
}

// The depth-first search for all sets.
class CutSearch {
 public:
  explicit CutSearch(const PipelineProfile& profile) : profile_(profile), needs_(needs_of(profile)) {}

  // False if there are too many sets.
  bool run() {
    visit(needs_[first_source()]);
    while (!path_.empty()) {
      LayerSet larger = next_extension(path_.back());
      if (larger.empty()) {
        finished_.push_back(std::move(path_.back().set));
        path_.pop_back();
      } else if (!found_.contains(larger)) {
        if (found_.size() == kMostCuts) return false;
        visit(std::move(larger));
      }
    }
    std::reverse(finished_.begin(), finished_.end());
    return true;
  }

  const std::vector<LayerSet>& sets() const { return finished_; }

 private:
  struct Visit {
    LayerSet set;
    std::size_t layer;   // its readers from `reader` on
    std::size_t reader;  // are still to be tried
  };

  std::size_t first_source() const {
    std::vector<bool> reads(profile_.layers.size(), false);
    for (const auto& readers : profile_.readers)
      for (const std::size_t reader : readers) reads[reader] = true;
    return static_cast<std::size_t>(std::find(reads.begin(), reads.end(), false) - reads.begin());
  }

  void visit(LayerSet set) {
    found_.insert(set);
    path_.push_back(Visit{std::move(set), 0, 0});
  }

  // Empty after the last one.
  LayerSet next_extension(Visit& visit) const {
    for (; visit.layer < profile_.layers.size(); ++visit.layer, visit.reader = 0) {
      if (!has_layer(visit.set, visit.layer)) continue;
      const auto& readers = profile_.readers[visit.layer];
      while (visit.reader < readers.size()) {
        const std::size_t reader = readers[visit.reader++];
        if (has_layer(visit.set, reader)) continue;
        LayerSet larger = visit.set;
        for (std::size_t word = 0; word < larger.size(); ++word) larger[word] |= needs_[reader][word];
        return larger;
      }
    }
    return {};
  }

  const PipelineProfile& profile_;
  std::vector<LayerSet> needs_;
  std::set<LayerSet> found_;
  std::vector<Visit> path_;
  std::vector<LayerSet> finished_;
};

void add_amounts(const PipelineProfile& profile, const LayerSet& set, PipelineCuts& cuts) {
  double seconds = 0, activations = 0, parameters = 0, crossing = 0;
  std::vector<std::size_t> layers;
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    if (!has_layer(set, i)) continue;
    const ProfiledLayer& layer = profile.layers[i];
    layers.push_back(i);
    seconds += layer.forward + layer.backward;
    activations += layer.kept > 0 ? layer.kept : layer.activations;
    parameters += layer.parameters;
    const auto& readers = profile.readers[i];
    if (std::any_of(readers.begin(), readers.end(), [&](std::size_t r) { return !has_layer(set, r); }))
      crossing += layer.activations;
  }
  cuts.layers.push_back(std::move(layers));
  cuts.seconds.push_back(seconds);
  cuts.activations.push_back(activations);
  cuts.parameters.push_back(parameters);
  cuts.crossing.push_back(crossing);
}

}  // namespace

std::size_t PipelineCuts::longest() const {
  std::vector<std::size_t> stages(size(), 1);
  for (std::size_t i = 0; i < size(); ++i)
    for (const std::uint32_t k : before[i]) stages[i] = std::max(stages[i], stages[k] + 1);
  return stages.empty() ? 0 : *std::max_element(stages.begin(), stages.end());
}

Result<PipelineCuts> find_cuts(const PipelineProfile& profile) {
  if (const Status checked = check_profile(profile); !checked) return checked.error();
  CutSearch search(profile);
  if (!search.run()) {
    return Error{"the profile has more than " + std::to_string(kMostCuts) +
                 " cuts: join layers, in independent branches first."};
  }
  const auto& sets = search.sets();
  const std::size_t n = profile.layers.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (!has_layer(sets.back(), i)) {
      return Error{"the layer '" + profile.layers[i].name +
                   "' is not connected to the first one, so no cut divides them into stages."};
    }
  }
  PipelineCuts cuts;
  cuts.before.resize(sets.size());
  for (std::size_t i = 0; i < sets.size(); ++i) {
    add_amounts(profile, sets[i], cuts);
    for (std::size_t k = 0; k < i; ++k)
      if (contains_set(sets[i], sets[k])) cuts.before[i].push_back(static_cast<std::uint32_t>(k));
  }
  return cuts;
}

}  // namespace starling::training
