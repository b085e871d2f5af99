// The parameters of a virtual peer, with the mixer and the learner that change them.
#pragma once

#include <cstddef>
#include <memory>

#include "lab/world/learner.h"
#include "models/arena.h"
#include "training/exchange/make.h"

namespace starling::lab {

struct VirtualReplica {
  VirtualReplica(std::size_t floats, const training::MixOptions& mix) { renew(floats, mix); }

  void renew(std::size_t floats, const training::MixOptions& mix) {
    mixer.reset();
    learner.reset();
    arena = std::make_unique<models::Arena>(floats);
    mixer = training::make_mixer(*arena, mix);
    present = false;
  }

  // Must be called before anything but a step writes to the arena: a step that is computed ahead reads it
  // first.
  void will_change() {
    if (learner) learner->arena_will_change();
  }

  std::unique_ptr<models::Arena> arena;
  std::unique_ptr<training::Mixer> mixer;  // of the arena
  std::unique_ptr<Learner> learner;        // null before the machine's start
  bool present = false;                    // the arena holds the peer's parameters
};

}  // namespace starling::lab
