// Who looks at a virtual world from outside: checkers, storytellers, tests. The world calls these as things
// happen, and never waits for, or acts on, what they find.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/time.h"
#include "gossip/actions.h"
#include "gossip/events.h"
#include "training/exchange/mixer.h"

namespace starling::lab {

enum class MachineState : std::uint8_t { waiting, running, finished, left, failed, crashed };

// One side of one chunk's mix, just made: the machine's arena holds the outcome.
struct Mix {
  std::uint32_t machine, partner;
  PeerId initiator;  // of the exchange, an instance
  std::uint64_t exchange;
  std::size_t chunk;
  const training::Parcel& offer;  // as it arrived at the responder, or was sent by the initiator
  const training::Parcel& reply;
  bool lied;  // one of the two has told the other something else than it computes with
  // In float32: the initiator's values, the responder's, and of a responder its own of this chunk that are out.
  std::span<const float> a, b, lent;
  float w;  // of the reply
  Duration age{0};              // of an initiator: since a was taken, by its own clock
  bool slept = false;           // of an initiator: it was paused meanwhile
};

class Watcher {
 public:
  virtual ~Watcher() = default;

  virtual void started(std::uint32_t /*machine*/) {}  // a new instance is up
  virtual void ended(std::uint32_t /*machine*/, MachineState) {}
  virtual void event(std::uint32_t /*machine*/, const gossip::Event&) {}  // before its core takes it
  virtual void action(std::uint32_t /*machine*/, const gossip::Action&) {}
  // The machine's core asks to be woken at an instant that is not later than its now.
  virtual void stood_still(std::uint32_t /*machine*/) {}

  virtual void has_parameters(std::uint32_t /*machine*/) {}
  virtual void lost_parameters(std::uint32_t /*machine*/) {}  // they are not finite any more; said twice maybe
  virtual void round_began(std::uint32_t /*machine*/) {}      // its arena may have changed
  virtual void lent(std::uint32_t /*machine*/, const training::Parcel&) {}
  // The partner refused the exchange that this was lent for.
  virtual void taken_back(std::uint32_t /*machine*/, const training::Parcel&) {}
  virtual void step_began(std::uint32_t /*machine*/, Duration /*takes*/) {}
  virtual void step_ended(std::uint32_t /*machine*/) {}  // its arena may have changed
  virtual void step_discarded(std::uint32_t /*machine*/) {}  // it ended, and nothing came of it
  virtual void answered(const Mix&) {}
  virtual void completed(const Mix&) {}
  // An exchange of its own broke off while this chunk was sent and not answered: it is counted as half
  // applied.
  virtual void half_applied(std::uint32_t /*machine*/, std::uint64_t /*exchange*/, std::size_t /*chunk*/) {}

  virtual void poison_arrived(std::uint32_t /*machine*/, std::uint32_t /*from*/, bool /*refused*/) {}
  virtual void mutation_arrived(std::uint32_t /*machine*/, std::uint32_t /*from*/, bool /*refused*/) {}
};

}  // namespace starling::lab
