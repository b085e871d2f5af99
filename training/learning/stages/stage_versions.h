// The parameters of a replica of a stage by version (weight stashing): copies of an arena that others change,
// made when a pass first needs them, and kept while a later pass may.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/aligned.h"
#include "kernels/buffer.h"
#include "models/arena.h"
#include "training/learning/stages/stage_replica.h"

namespace starling::training {

class StageVersions {
 public:
  explicit StageVersions(StageReplica& stage) : stage_(stage) {}

  // Drops all. Versions are of this arena from now on.
  void begin(const models::Arena& arena);
  // As of StageBuffers::parameters(). A version that is not there becomes a copy of the newest parameters.
  const float* at(std::uint64_t version);
  // Drops versions before this one.
  void drop_before(std::uint64_t version);

 private:
  struct Copy {
    AlignedBytes arena{};         // only what the stage reads is written, and so takes memory
    kernels::Buffer on_device{};  // of no size on the host
    const float* values = nullptr;
  };
  Copy copy_of_newest();

  StageReplica& stage_;
  const models::Arena* arena_ = nullptr;
  std::map<std::uint64_t, Copy> copies_;
  std::vector<Copy> spare_;
};

}  // namespace starling::training
