// Makes the mixer of a rule.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "base/result.h"
#include "models/arena.h"
#include "training/exchange/mixer.h"
#include "training/exchange/options.h"

namespace starling::training {

// What the k-th of so many parameter servers has of an arena.
struct Stretch {
  std::size_t offset = 0, floats = 0;
};
Stretch served_by(std::size_t k, std::size_t servers, std::size_t arena_floats);

// `arena` outlives the mixer, which begins as after adopt(). REQUIRES: the options are mix_options()' or like
// them; cell_floats > 0. A rule none has a mixer too, which nobody calls: pairwise.
std::unique_ptr<Mixer> make_mixer(models::Arena& arena, const MixOptions& options);

}  // namespace starling::training
