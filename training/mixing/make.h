// Makes the Mixer of a rule: the only place that names all their classes.
#pragma once

#include <cstddef>
#include <memory>

#include "models/arena.h"
#include "training/mixing/mixer.h"

namespace starling::training {

// The part of an arena that the k-th parameter server holds.
struct Stretch {
  std::size_t offset = 0, floats = 0;
};
Stretch served_by(std::size_t k, std::size_t servers, std::size_t arena_floats);

// `arena` outlives the mixer, which begins as after adopt(). REQUIRES: the rule takes the payload
// (check_payload()); cell_floats > 0.
std::unique_ptr<Mixer> make_mixer(models::Arena& arena, const MixOptions& options);

}  // namespace starling::training
