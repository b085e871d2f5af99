#include "training/exchange/make.h"

#include <algorithm>

#include "training/exchange/choco.h"
#include "training/exchange/clipped.h"
#include "training/exchange/lock_step.h"
#include "training/exchange/noloco.h"
#include "training/exchange/pairwise.h"
#include "training/exchange/pairwise_top_k.h"
#include "training/exchange/parameter_server.h"
#include "training/exchange/push_sum.h"

namespace starling::training {

Stretch served_by(std::size_t k, std::size_t servers, std::size_t arena_floats) {
  const CellGrid grid{arena_floats, kDefaultCellFloats};
  const Cells cells = grid.part(k, servers);
  const std::size_t offset = grid.offset(cells.first);
  return {offset, std::min(arena_floats, grid.offset(cells.first + cells.count)) - offset};
}

std::unique_ptr<Mixer> make_mixer(models::Arena& arena, const MixOptions& options) {
  if (options.rule == "choco") return std::make_unique<Choco>(arena, options);
  if (options.rule == "clipped") return std::make_unique<Clipped>(arena, options);
  if (options.rule == "push-sum") return std::make_unique<PushSum>(arena, options);
  if (options.rule == "d-psgd") return std::make_unique<LockStep>(arena, options);
  if (options.rule == "noloco") return std::make_unique<Noloco>(arena, options);
  if (options.rule == "parameter-server" || options.rule == "ssp")
    return std::make_unique<ParameterServer>(arena, options);
  STARLING_CHECK(options.rule == "pairwise" || options.rule == "none");
  if (options.payload == Payload::top_k) return std::make_unique<PairwiseTopK>(arena, options);
  return std::make_unique<Pairwise>(arena, options);
}

}  // namespace starling::training
