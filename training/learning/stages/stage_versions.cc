#include "training/learning/stages/stage_versions.h"

#include <limits>
#include <utility>

namespace starling::training {

void StageVersions::begin(const models::Arena& arena) {
  drop_before(std::numeric_limits<std::uint64_t>::max());
  arena_ = &arena;
}

const float* StageVersions::at(std::uint64_t version) {
  const auto [place, fresh] = copies_.try_emplace(version);
  if (fresh) place->second = copy_of_newest();
  return place->second.values;
}

StageVersions::Copy StageVersions::copy_of_newest() {
  Copy copy;
  if (spare_.empty()) {
    copy.arena = AlignedBytes(arena_->size() * sizeof(float));
  } else {
    copy = std::move(spare_.back());
    spare_.pop_back();
  }
  auto* const floats = reinterpret_cast<float*>(copy.arena.bytes().data());
  for (const auto& [begin, end] : stage_.layers().reads) arena_->read(begin, {floats + begin, end - begin});
  copy.values = stage_.buffers().parameters(floats, copy.on_device);
  return copy;
}

void StageVersions::drop_before(std::uint64_t version) {
  while (!copies_.empty() && copies_.begin()->first < version) {
    spare_.push_back(std::move(copies_.begin()->second));
    copies_.erase(copies_.begin());
  }
}

}  // namespace starling::training
