// The computer that a virtual peer runs on: its instances, its clock, what befalls it, and how it sends. The
// parts of a peer (its training, exchanges and copies) see it as this, and give events to the peer's core
// through step().
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "gossip/events.h"
#include "lab/world/mishaps.h"
#include "lab/world/packet.h"
#include "lab/world/surroundings.h"

namespace starling::lab {

class VirtualMachine {
 public:
  VirtualMachine(Surroundings& world, std::uint32_t index);
  VirtualMachine(const VirtualMachine&) = delete;
  VirtualMachine& operator=(const VirtualMachine&) = delete;
  virtual ~VirtualMachine() = default;

  // Gives an event to the peer's core and carries out the actions. Does nothing unless up().
  virtual void step(gossip::Event event) = 0;

  std::uint32_t index() const { return index_; }
  const MachineOptions& options() const { return world_.options.machines[index_]; }
  const Address& address() const { return address_; }
  PeerId id() const { return id_; }             // of the latest instance
  std::uint32_t life() const { return life_; }  // number of the latest instance
  MachineState state() const { return state_; }
  bool up() const { return state_ == MachineState::running; }
  bool silent() const { return silent_; }  // it lost its power: connections are not even refused
  Mishaps& mishaps() { return mishaps_; }
  const Mishaps& mishaps() const { return mishaps_; }
  Random& random() { return random_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  Instant now() const { return world_.now(); }
  Instant local_now() const { return mishaps_.local(now()); }
  Instant awake() const { return mishaps_.awake(now()); }  // now, or the end of the pause
  Duration disk_access() const { return mishaps_.disk_access(now()); }
  void trace(std::uint64_t kind, std::uint64_t detail) { world_.trace(index_, kind, detail); }

  // Schedules something for this instance. It is dropped if the instance is down by then, and waits while the
  // machine is paused.
  template <class Happening>
  void later(Instant at, Happening happening);

  // A packet from this instance, which counts as sent.
  PacketPtr packet(Packet::Kind kind, std::uint64_t exchange, std::size_t bytes);
  void send(Connection& connection, PacketPtr packet) {
    world_.network.send(connection, index_, std::move(packet));
  }
  // Sends a chunk, spoiled if the machine is poisoned at this time.
  void send_chunk(Connection& connection, PacketPtr packet, const training::Parcel& parcel,
                  const Block& block);
  // What a liar that repeats its first parameters sends.
  std::vector<float>& first_values() { return first_values_; }

  // Tells the core, after the current event, that the replica holds values that may not travel.
  void report_divergence() {
    later(now(), [this] { step(gossip::ReplicaDiverged{}); });
  }

 protected:
  void enter_life();  // a new instance, which is not up yet
  void set_state(MachineState state, bool silent) {
    state_ = state;
    silent_ = silent;
  }

  Surroundings& world_;

 private:
  void spoil(const Poison& poison, Packet& packet);

  Random random_;
  std::uint32_t index_;
  Address address_;
  std::uint32_t life_ = 0;
  PeerId id_;
  MachineState state_ = MachineState::waiting;
  bool silent_ = false;
  Mishaps mishaps_;
  std::uint64_t bytes_sent_ = 0;
  std::vector<float> first_values_;
};

template <class Happening>
void VirtualMachine::later(Instant at, Happening happening) {
  struct Late {
    VirtualMachine* machine;
    std::uint32_t life;
    Happening happening;
    void operator()() {
      if (!machine->up() || machine->life_ != life) return;
      if (const Instant awake = machine->awake(); awake > machine->now()) {
        machine->world_.queue.schedule(awake, std::move(*this));
      } else {
        happening();
      }
    }
  };
  world_.queue.schedule(at, Late{this, life_, std::move(happening)});
}

}  // namespace starling::lab
