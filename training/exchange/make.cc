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

Result<MixOptions> mix_options(const Experiment& experiment) {
  if (Status status = check_rule(experiment); !status) return status.error();
  MixOptions options;
  options.rule = experiment.rule;
  options.top_k = experiment.top_k;
  options.outer_rate = experiment.outer_rate;
  options.outer_momentum = experiment.outer_momentum;
  options.consensus_rate = experiment.consensus_rate.value_or(0);
  options.clip = experiment.clip;
  options.seed = experiment.seed;
  if (experiment.payload == "bf16") {
    options.payload = Payload::bf16;
  } else if (experiment.payload == "int8") {
    options.payload = Payload::int8;
  } else if (experiment.payload == "top-k") {
    options.payload = Payload::top_k;
  } else if (experiment.payload != "f32") {
    return Error{"gossip.payload: '" + experiment.payload + "' is none of f32, bf16, int8 and top-k"};
  }
  return options;
}

std::optional<std::size_t> chunk_cells(const Experiment& experiment, std::size_t cell_floats) {
  if (experiment.chunk == 0) return std::nullopt;
  const std::size_t cell_bytes = sizeof(float) * cell_floats;
  return (experiment.chunk + cell_bytes - 1) / cell_bytes;
}

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
  if (options.rule == "parameter-server" || options.rule == "ssp") return std::make_unique<ParameterServer>(arena, options);
  STARLING_CHECK(options.rule == "pairwise" || options.rule == "none");
  if (options.payload == Payload::top_k) return std::make_unique<PairwiseTopK>(arena, options);
  return std::make_unique<Pairwise>(arena, options);
}

}  // namespace starling::training
