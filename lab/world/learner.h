// What a virtual machine does between exchanges: steps on its arena. A step sees the parameters as they are
// at its start and adds its update at its end, so a learner may compute in the background in between.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "models/arena.h"

namespace starling::lab {

class Learner {
 public:
  virtual ~Learner() = default;

  // A step of one Hogwild worker begins and will end then, or later. It sees the arena as it is now: what it needs is
  // read before this returns, or before arena_will_change() does.
  virtual void begin_step(std::uint32_t worker, const models::Arena& arena, Instant ends) = 0;
  // Somebody else is about to write to it: an exchange.
  virtual void arena_will_change() {}
  // What the machine's core knows of the swarm's progress, said before each end_step().
  virtual void swarm_has_consumed(std::uint64_t /*samples*/) {}
  // It ends: adds the update. Returns the samples it consumed.
  virtual std::uint64_t end_step(std::uint32_t worker, models::Arena& arena) = 0;
  // It ends and nothing comes of it.
  virtual void discard_step(std::uint32_t /*worker*/) {}
  // No step will end any more with an update; one that is under way is still discarded.
  virtual void over() {}
  // The arena holds somebody else's parameters: what an optimizer remembers is forgotten.
  virtual void renew() {}
  // Mean loss of late steps, for the time series.
  virtual double loss() const { return 0; }
  // Of its latest step; nullopt before that.
  virtual std::optional<double> learning_rate() const { return std::nullopt; }
};

}  // namespace starling::lab
