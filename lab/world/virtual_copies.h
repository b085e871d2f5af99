// Copies of a replica: a joiner's first one, or one that takes the place of a lost replica. Both sides: the
// joiner that fetches, and the donor that gives.
#pragma once

#include <cstdint>

#include "gossip/actions.h"
#include "lab/world/virtual_machine.h"
#include "lab/world/virtual_replica.h"

namespace starling::lab {

class VirtualCopies {
 public:
  VirtualCopies(VirtualMachine& machine, VirtualReplica& replica, Surroundings& world)
      : machine_(machine), replica_(replica), world_(world) {}

  // Joiner.
  void fetch(const gossip::FetchState& fetch);
  void abort() { active_ = false; }
  void take_chunk(VirtualCopies& donor, Connection& connection, const Packet& packet);
  void take_refusal(const Packet& packet);
  void connection_broke(const Connection& connection, std::uint32_t epoch);
  void clear();  // a new instance begins

  // Donor.
  void give(Connection& connection, const Packet& request);

 private:
  void lose(const char* why, bool poisoned);
  void send(Connection& connection, std::uint32_t epoch, std::size_t chunk, std::uint64_t attempt);
  void refuse(Connection& connection, std::uint64_t attempt);

  VirtualMachine& machine_;
  VirtualReplica& replica_;
  Surroundings& world_;
  // The joiner's.
  std::uint64_t attempt_ = 0;  // chunks of earlier ones are dropped
  bool active_ = false;
  Connection* connection_ = nullptr;
  std::uint32_t epoch_ = 0;   // of the connection
  std::size_t in_place_ = 0;  // chunks, from any donor
};

}  // namespace starling::lab
