// How a virtual machine reaches others, as transport::LinkTable and the relay do it: by a dial, by a call, or
// over a relay; what it does for others; and what decides whether others can dial it.
#pragma once

#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/time.h"
#include "gossip/actions.h"
#include "gossip/events.h"
#include "lab/world/virtual_machine.h"

namespace starling::lab {

class VirtualReach {
 public:
  VirtualReach(VirtualMachine& machine, Surroundings& world) : machine_(machine), world_(world) {}

  // What its Hellos state, with the source of its connections as the host. None: it does not listen.
  Address stated() const { return listens_ ? machine_.address() : Address{}; }
  // Its core asks members where they can dial it.
  bool finds_address() const { return listens_ && finds_address_; }
  std::uint64_t relays() const { return relays_; }  // bits per second

  // ---- incidents ----
  // It is behind a router from now on. `knows`: it does not listen.
  void hide(bool knows);
  void relay(std::uint64_t bandwidth);
  void find_address() { finds_address_ = true; }
  void move();  // it has another address from now on

  // ---- for the peer of this machine ----
  void send(const Endpoint& to, wire::Message&& message);  // a control message
  // The connection for an exchange or a copy, which the first packet opens if it does not stand; null if
  // nobody can be there.
  Connection* bulk_to(const Endpoint& to);
  void act(const gossip::TryDial& dial);
  void act(const gossip::AnswerCall& call);
  // That the connection with this machine broke.
  gossip::Unreachable unreachable(std::uint32_t machine) const;

 private:
  struct Reached {
    VirtualMachine* machine = nullptr;  // null: nobody
    Opening opening = Opening::dial;
  };
  VirtualMachine* instance(PeerId id) const;
  Reached dialed(const Endpoint& to) const;
  Reached reached(const Endpoint& to, wire::Purpose purpose) const;
  void report_unreachable(const Endpoint& to, Duration after, const char* why);
  void place_call(const Endpoint& to, wire::Purpose purpose, std::uint64_t number);
  void request_circuit(Connection& connection, const Endpoint& to, std::uint64_t number);
  // As the relay.
  void begin_circuit(Connection& connection, std::uint64_t number, PeerId target);
  void complete_circuit(std::uint64_t number);

  VirtualMachine& machine_;
  Surroundings& world_;
  bool listens_ = true, finds_address_ = false;
  std::uint64_t relays_ = 0;
  std::uint32_t moves_ = 0;
  std::map<std::uint32_t, Endpoint> used_;            // by machine: as it was reached last, if not as usual
  std::map<std::uint64_t, Connection*> requested_{};  // circuits that this machine is about to relay
};

}  // namespace starling::lab
