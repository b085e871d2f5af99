// The computer on which a virtual peer runs: its instances, clock, mishaps and sending. The parts of a peer
// (training, exchanges and copies) use it, and pass events to the peer's core through step().
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "gossip/events.h"
#include "lab/world/event_queue.h"
#include "lab/world/mishaps.h"
#include "lab/world/network/packet.h"
#include "lab/world/network/virtual_network.h"
#include "lab/world/world_options.h"

namespace starling::lab {

class VirtualMachine;
class VirtualReach;

// What all machines of a world share: time, the network, random numbers, the directory, and the watcher.
struct Surroundings {
  Surroundings(WorldOptions o, MakeLearner make, std::vector<float> first, NetworkHost& host)
      : options(std::move(o)),
        make_learner(std::move(make)),
        first_parameters(std::move(first)),
        random(options.seed),
        ids(random.split(2)),
        spoiling(random.split(3)),
        conditions(options.network.latency, options.network.bandwidth),
        network(options.network, conditions, random.split(1), queue, host),
        watcher(options.watcher != nullptr ? *options.watcher : nobody),
        sabotage(options.sabotage) {}

  Instant now() const { return queue.now(); }
  // A new id, which is entered in the directory.
  PeerId new_id(std::uint32_t machine) {
    for (;;) {
      const PeerId id{ids.bits()};
      if (id && by_id.try_emplace(id.value, machine).second) return id;
    }
  }
  // Adds to the hash that distinguishes two runs.
  void trace(std::uint32_t machine, std::uint64_t kind, std::uint64_t detail) {
    const std::array<std::uint64_t, 4> words{static_cast<std::uint64_t>(now().since_start.count()), machine,
                                             kind, detail};
    trace_hash = hash64(std::as_bytes(std::span(words)), trace_hash);
  }

  WorldOptions options;
  MakeLearner make_learner;
  std::vector<float> first_parameters;
  Random random, ids, spoiling;
  EventQueue queue;
  NetworkConditions conditions;
  VirtualNetwork network;
  Watcher nobody{};  // stands in if the options name no watcher
  Watcher& watcher;
  Sabotage* sabotage;  // may be null
  BlockStore blocks;
  std::vector<Mutation> mutations;      // current and past
  std::vector<gossip::Action> actions;  // scratch memory of VirtualPeer::step()

  std::vector<VirtualMachine*> machines;
  std::unordered_map<std::string, std::uint32_t> by_host;  // present and past addresses
  std::unordered_map<std::uint64_t, std::uint32_t> by_id;  // machines by instance, present and past
  std::uint32_t beginner = 0;                              // begins the run
  std::size_t open = 0;                                    // machines that run or wait for their first start
  std::size_t exchanges_under_way = 0;
  std::uint64_t samples = 0;
  std::uint64_t calls = 0;  // that machines have placed; numbers them
  std::uint64_t trace_hash = 0;
  std::optional<Instant> training_began;
};

class VirtualMachine {
 public:
  VirtualMachine(Surroundings& world, std::uint32_t index);
  VirtualMachine(const VirtualMachine&) = delete;
  VirtualMachine& operator=(const VirtualMachine&) = delete;
  virtual ~VirtualMachine() = default;

  // Passes an event to the peer's core and executes its actions. Does nothing unless up().
  virtual void step(gossip::Event event) = 0;
  virtual VirtualReach& reach() = 0;

  std::uint32_t index() const { return index_; }
  const MachineOptions& options() const { return world_.options.machines[index_]; }
  // Where others can dial it, unless it is behind a router: then the source of its connections.
  const Address& address() const { return address_; }
  void move_to(Address address) {
    address_ = std::move(address);
    world_.by_host[address_.host] = index_;
  }
  PeerId id() const { return id_; }             // of the latest instance
  std::uint32_t life() const { return life_; }  // number of the latest instance
  MachineState state() const { return state_; }
  // Whether it is in its first life, and one of those that begin the run together.
  bool founds() const {
    return world_.options.together && life_ == 0 &&
           options().start == world_.options.machines[world_.beginner].start;
  }
  bool up() const { return state_ == MachineState::running; }
  bool silent() const { return silent_; }  // after a power loss: connections are not even refused
  Mishaps& mishaps() { return mishaps_; }
  const Mishaps& mishaps() const { return mishaps_; }
  Random& random() { return random_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  Instant now() const { return world_.now(); }
  Instant local_now() const { return mishaps_.local(now()); }
  Instant awake() const { return mishaps_.awake(now()); }  // now, or the end of the pause
  Duration disk_access() const { return mishaps_.disk_access(now()); }
  void trace(std::uint64_t kind, std::uint64_t detail) { world_.trace(index_, kind, detail); }

  // Schedules a happening of this instance. It is dropped if the instance has ended by then, and delayed
  // while the machine is paused.
  template <class Happening>
  void later(Instant at, Happening happening) {
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

  // Makes a packet from this instance and counts its bytes as sent.
  PacketPtr packet(Packet::Kind kind, std::uint64_t exchange, std::size_t bytes);
  void send(Connection& connection, PacketPtr packet) {
    world_.network.send(connection, index_, std::move(packet));
  }
  // Sends a chunk, poisoned if the machine is poisoned at this time.
  void send_chunk(Connection& connection, PacketPtr packet, const training::Parcel& parcel,
                  const Block& block);
  // What a machine with PoisonKind::frozen sends.
  std::vector<float>& first_values() { return first_values_; }

  // Reports to the core, after the current event, that the replica contains values that must not be sent.
  void report_divergence() {
    later(now(), [this] { step(gossip::ReplicaDiverged{}); });
  }

 protected:
  // Begins a new instance, which is not up yet. Its disk may have its identity.
  enum class Identities : std::uint8_t { kept, lost };
  void enter_life(Identities identity) {
    ++life_;
    if (identity == Identities::lost) id_ = world_.new_id(index_);
    silent_ = false;
  }
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

}  // namespace starling::lab
