// Statement 11: which addresses and homes the records have, and which ways peers use. A check returns a
// sentence if the statement is violated.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gossip/actions.h"
#include "lab/world/world.h"

namespace starling::lab {

class ReachChecks {
 public:
  using Finding = std::optional<std::string>;

  void watch(const World& world) { world_ = &world; }
  void started(std::uint32_t machine);
  // Before the driver carries it out. A call counts for final_calls() if `counts`.
  Finding action(std::uint32_t machine, const gossip::Action& action, bool counts);
  // An exchange that the machine began has ended.
  void exchange_ended(std::uint32_t machine, std::uint64_t exchange, bool answered);
  Finding circuit_opened(std::uint32_t relay, std::uint32_t requester, std::uint32_t target) const;

  // Whether the member, in whatever incarnation, has stated what a view says about how it is reached. `self`
  // is its own record.
  bool is_stated(const wire::Member& member, const wire::Member& self) const;
  // Whether a record has a wrong address: a peer that can be dialed has to find out where, and another one
  // that it cannot.
  bool addresses_differ() const;
  // Whether the machines that are up cannot find each other: none of them can be dialed.
  bool are_apart() const;
  // Whether all neighbors of this machine in lock-step may be peers with which it cannot connect: it cannot
  // be dialed, and no member relays.
  bool may_be_alone(std::uint32_t machine) const;
  // At the end: the own record of this machine; the calls of all.
  Finding final_record(std::uint32_t machine) const;
  Finding final_calls() const;

 private:
  enum class Uses : std::uint8_t { message, bulk };  // a message may use a link that stands
  Finding way(std::uint32_t machine, const Endpoint& to, Uses uses);
  bool is_news(std::uint32_t machine, const wire::Member& member);
  void remember(std::uint32_t machine);
  const std::string& name(std::uint32_t machine) const { return world_->options().machines[machine].name; }

  const World* world_ = nullptr;
  bool hides_ = false;                             // some peer has had no address
  std::unordered_set<std::uint32_t> has_offered_;  // machines whose record has said that they relay
  std::unordered_map<std::uint64_t, std::vector<Address>> stated_;        // by id
  std::unordered_map<std::uint32_t, std::vector<std::uint64_t>> called_;  // by machine: exchanges under way
  // By machine and id: when it first used a way that the record with this incarnation excludes.
  struct Excluded {
    std::uint32_t incarnation;
    Instant at;
  };
  std::map<std::pair<std::uint32_t, PeerId>, Excluded> excluded_;
  std::uint64_t calls_answered_ = 0, calls_failed_ = 0;
};

}  // namespace starling::lab
