// Bugs planted from outside the core, between it and the world, to see whether the checkers find them: a
// hunter that never met its prey proves nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "gossip/actions.h"
#include "gossip/events.h"

namespace starling::lab {

class Sabotage {
 public:
  virtual ~Sabotage() = default;

  // May change what a machine's core is about to be told.
  virtual void before(std::uint32_t /*machine*/, PeerId /*self*/, gossip::Event&) {}
  // When the core is woken, given when it wants to be.
  virtual Instant deadline(Instant /*now*/, Instant wanted) { return wanted; }
  // Whether an initiator takes a reply for mixed without mixing it.
  virtual bool swallows_mix() { return false; }
  // How many messages it keeps, as if a queue of the driver's held them.
  virtual std::size_t held() const { return 0; }
};

enum class PlantedBug : std::uint8_t {
  lost_mass,             // now and then a chunk is mixed on one side only
  resurrected_peer,      // now and then a telling of a failed or departed member says that it lives
  unbounded_queue,       // what arrives is queued, and nobody empties that queue
  idle_deadline,         // now and then next_deadline() is now
  forgotten_refutation,  // nobody ever hears that it is suspected or called failed
};
inline constexpr PlantedBug kPlantedBugs[] = {PlantedBug::lost_mass, PlantedBug::resurrected_peer,
                                              PlantedBug::unbounded_queue, PlantedBug::idle_deadline,
                                              PlantedBug::forgotten_refutation};
const char* name(PlantedBug bug);

std::unique_ptr<Sabotage> plant(PlantedBug bug, std::uint64_t seed);

}  // namespace starling::lab
