// The steps of one virtual peer: its workers compute on the replica, take virtual time, and stop or rest when
// the core says so. What node::Trainer is to the daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gossip/actions.h"
#include "gossip/peer.h"
#include "lab/world/virtual_machine.h"
#include "lab/world/virtual_replica.h"

namespace starling::lab {

class VirtualTraining {
 public:
  VirtualTraining(VirtualMachine& machine, VirtualReplica& replica, Surroundings& world)
      : machine_(machine), replica_(replica), world_(world) {}

  // A new instance begins, whose core this is.
  void clear(const gossip::Peer& core);

  void start();
  void stop() { running_ = false; }
  // `discard`: steps under way are thrown away when they end.
  void pause(bool discard);
  void resume();

  std::optional<Instant> since() const { return since_; }
  // Of all instances.
  std::uint64_t steps() const { return earlier_steps_ + steps_; }
  std::uint64_t samples() const { return earlier_samples_ + samples_; }

 private:
  void begin_steps();
  void begin_step(std::uint32_t worker);
  void end_step(std::uint32_t worker, std::uint64_t era);

  VirtualMachine& machine_;
  VirtualReplica& replica_;
  Surroundings& world_;
  const gossip::Peer* core_ = nullptr;
  bool running_ = false;
  bool resting_ = false;        // between pause() and resume()
  std::uint64_t era_ = 0;       // counts the discards: a step of an earlier era is thrown away
  std::vector<bool> stepping_;  // by worker
  std::optional<Instant> since_;
  std::uint64_t steps_ = 0, samples_ = 0;                  // of this instance
  std::uint64_t earlier_steps_ = 0, earlier_samples_ = 0;  // of its former instances
  std::uint64_t begun_ = 0;                                // steps, of all instances
};

}  // namespace starling::lab
