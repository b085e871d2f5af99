// The parameters of a Mixer: its rule, its payload and what they can be tuned by. training/replica/recipe.h
// makes them from an experiment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rules/rule.h"
#include "training/exchange/mixer.h"

namespace starling::training {

struct MixOptions {
  Rule rule = Rule::pairwise;
  Payload payload = Payload::f32;
  double top_k = 0.01;          // of a cell's floats, with payload top_k
  double outer_rate = 0.7;      // noloco
  double outer_momentum = 0.5;  // noloco
  double consensus_rate = 0;    // choco; 0: by payload
  double clip = 0.5;            // clipped: as a multiple of the median distance
  std::size_t links = 8;        // choco: partners whose copies are kept
  std::size_t cell_floats = kDefaultCellFloats;
  std::uint64_t seed = 1;  // of the chance in rounding
  bool wary =
      true;  // refuses what is far off; not where replicas begin far apart, as in measurements of mixing
  bool exact = false;  // loses no concurrent atomic_add to the arena, 20 times slower: for tests
};

}  // namespace starling::training
