#include "training/learning/stages/stage_layers.h"

#include <algorithm>
#include <map>
#include <set>

namespace starling::training {

std::size_t floats_in(std::span<const FloatRange> ranges) {
  std::size_t floats = 0;
  for (const auto& [begin, end] : ranges) floats += end - begin;
  return floats;
}

void sum_ranges(std::span<const FloatRange> ranges, bool is_first, const float* from, float* to) {
  for (const auto& [begin, end] : ranges) {
    if (is_first) {
      std::copy(from + begin, from + end, to + begin);
    } else {
      for (std::size_t i = begin; i < end; ++i) to[i] += from[i];
    }
  }
}

std::vector<StageLayers> divide_layers(const models::Plan& plan, const std::vector<int>& cuts) {
  std::vector<StageLayers> stages(cuts.size() + 1);
  std::map<std::size_t, std::size_t> owners;  // by tensor
  for (std::size_t s = 0; s < stages.size(); ++s) {
    StageLayers& it = stages[s];
    it.stage = s;
    it.stages = stages.size();
    it.begin = s == 0 ? 0 : cuts[s - 1];
    it.end = s == cuts.size() ? static_cast<int>(plan.layers.size()) : cuts[s];
    std::set<std::size_t> tensors;
    for (int layer = it.begin; layer < it.end; ++layer)
      for (const std::size_t i : plan.layers[static_cast<std::size_t>(layer)].tensors) tensors.insert(i);
    it.tensors.assign(tensors.begin(), tensors.end());
    for (const std::size_t i : it.tensors) {
      const models::Tensor& tensor = plan.layout.tensors()[i];
      const FloatRange range{tensor.offset, tensor.offset + tensor.size};
      it.reads.push_back(range);
      const auto [owner, is_own] = owners.try_emplace(i, s);
      if (is_own) {
        it.ranges.push_back(range);
        it.trained += tensor.trained ? 1 : 0;
      } else {
        it.tied.push_back({i, owner->second});
      }
    }
  }
  return stages;
}

}  // namespace starling::training
