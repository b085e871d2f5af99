// Bugs that are planted between the core and the world to test whether the checkers find them.
#pragma once

#include <cstdint>
#include <memory>

#include "base/random.h"
#include "base/time.h"
#include "gossip/actions.h"
#include "gossip/events.h"
#include "gossip/members/members.h"

namespace starling::lab {

class Sabotage {
 public:
  virtual ~Sabotage() = default;

  // May change the options of the cores.
  virtual void before_start(gossip::MembershipOptions&) {}
  // May change an event before the machine's core receives it.
  virtual void before(std::uint32_t /*machine*/, PeerId /*self*/, gossip::Event&) {}
  // The instant at which the core is woken, given its deadline.
  virtual Instant deadline(Instant /*now*/, Instant wanted) { return wanted; }
  // Whether an initiator counts a reply as mixed without mixing it.
  virtual bool swallows_mix() { return false; }
  // Whether a driver keeps the answers that its budget ends.
  virtual bool keeps_answers() { return false; }
  // Whether a driver ends its latest answer in place of the one that its budget chooses.
  virtual bool ends_latest_answer() { return false; }
  // The number of messages that it keeps, as if they were in a queue of the driver.
  virtual std::size_t held() const { return 0; }
};

enum class PlantedBug : std::uint8_t {
  lost_mass,             // some chunks are mixed on one side only
  resurrected_peer,      // some news of failed or departed members says that they are alive, and is believed
  unbounded_queue,       // arriving messages are queued and never removed
  idle_deadline,         // next_deadline() is sometimes now
  forgotten_refutation,  // a peer never receives news that it is suspected or failed
  // One of the guards against lies (gossip::Guards) is missing.
  no_signatures,
  no_bound_of_samples,
  no_introductions,
  no_own_probe,
  calls_not_passed_on,
  homes_never_replaced,    // other peers keep the first homes of a member
  moved_keeps_old_record,  // and its first address
  answers_pile_up,         // none ends to make room
  wrong_answer_ends,       // it is the latest one
  endless_waits,           // gossip::Guards::pauses is missing
  begins_alone,            // without those that it is started together with
};
const char* name(PlantedBug bug);

std::unique_ptr<Sabotage> plant(PlantedBug bug, std::uint64_t seed);

}  // namespace starling::lab
