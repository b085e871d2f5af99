#include "training/mixing/make.h"

#include <algorithm>

#include "training/mixing/lock_step.h"
#include "training/mixing/rules/choco.h"
#include "training/mixing/rules/noloco.h"
#include "training/mixing/rules/pairwise.h"
#include "training/mixing/rules/pairwise_top_k.h"
#include "training/mixing/rules/parameter_server.h"
#include "training/mixing/rules/push_sum.h"

namespace starling::training {

Stretch served_by(std::size_t k, std::size_t servers, std::size_t arena_floats) {
  const CellGrid grid{arena_floats, kDefaultCellFloats};
  const Cells cells = grid.part(k, servers);
  const std::size_t offset = grid.offset(cells.first);
  return {offset, std::min(arena_floats, grid.offset(cells.first + cells.count)) - offset};
}

std::unique_ptr<Mixer> make_mixer(models::Arena& arena, const MixOptions& options) {
  switch (options.rule) {
    case Rule::pairwise:
    case Rule::none:        // its mixer is never called
    case Rule::all_reduce:  // neither are those of these two
    case Rule::diloco:
      if (options.payload == Payload::top_k) return std::make_unique<PairwiseTopK>(arena, options);
      return std::make_unique<Pairwise>(arena, options);
    case Rule::push_sum:
      return std::make_unique<PushSum>(arena, options);
    case Rule::d_psgd:
      return std::make_unique<LockStepMixer>(arena, options);
    case Rule::choco:
      return std::make_unique<Choco>(arena, options);
    case Rule::noloco:
      return std::make_unique<Noloco>(arena, options);
    case Rule::clipped:
      return std::make_unique<Clipped>(arena, options);
    case Rule::parameter_server:
    case Rule::ssp:
      return std::make_unique<ParameterServer>(arena, options);
  }
  STARLING_CHECK(false);
  return nullptr;
}

}  // namespace starling::training
