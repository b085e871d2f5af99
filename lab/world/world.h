// The virtual driver of the core: machines with a VirtualPeer each, virtual links, one event queue, and a
// schedule of incidents (faults.h). Protocol decisions (gossip) and the arithmetic and bookkeeping of
// exchanges (training/mixing) are the daemon's; sockets, clocks, disks and threads are simulated.
// docs/ARCHITECTURE.md compares the two drivers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "lab/world/virtual_machine.h"
#include "lab/world/world_options.h"

namespace starling::lab {

class IncidentPlayer;
class VirtualPeer;

class World final : private NetworkHost {
 public:
  using MakeLearner = lab::MakeLearner;
  using MachineView = lab::MachineView;

  // The machine that begins the run starts from `first_parameters`; the others copy them, unless all that
  // start first begin it together.
  World(WorldOptions options, MakeLearner make_learner, std::vector<float> first_parameters);
  ~World();

  // Runs one happening. False if none is left, except those that an endless pause delays.
  bool run_one();
  // Runs until every machine is over.
  void run();
  // Requests every machine to end the run now.
  void end_all();
  // Whether no machine runs or waits for its first start.
  bool over() const { return shared_.open == 0; }
  // Whether no exchange is under way.
  bool quiet() const { return shared_.exchanges_under_way == 0; }

  Instant now() const { return shared_.now(); }
  std::size_t pending() const { return shared_.queue.size(); }  // scheduled happenings
  std::uint64_t happenings() const { return shared_.queue.scheduled() - shared_.queue.size(); }
  const WorldOptions& options() const { return shared_.options; }
  const VirtualNetwork& network() const { return shared_.network; }
  std::uint64_t samples() const { return shared_.samples; }  // of all machines
  std::uint64_t trace_hash() const { return shared_.trace_hash; }
  // When the first step of any machine began; nullopt before that.
  std::optional<Instant> training_began() const { return shared_.training_began; }
  // The greatest length of any queue of messages so far.
  std::size_t longest_queue() const;

  std::size_t machines() const { return peers_.size(); }
  MachineView machine(std::uint32_t i) const;
  // The machine that runs or ran the instance with this id.
  std::optional<std::uint32_t> machine_of(PeerId id) const;
  // Whether others can dial this machine, and do so at this address.
  bool can_be_dialed(std::uint32_t i) const { return !shared_.conditions.is_hidden(i); }
  bool can_be_dialed(std::uint32_t i, const Address& address) const;
  // Whether two machines have a control connection, as far as the first one knows.
  bool linked(std::uint32_t a, std::uint32_t b) const;
  // How long a machine was paused within an interval.
  Duration paused_within(std::uint32_t i, Instant from, Instant to) const;
  // The pauses of a machine, past and future, ordered by beginning.
  std::span<const TimeRange> pauses(std::uint32_t i) const;

  // Replaces a machine's replica, for measurements that begin from known parameters. REQUIRES: quiet(), the
  // machine has parameters, values.size() == options().arena_floats.
  void set_parameters(std::uint32_t i, std::span<const float> values);
  // All memory that depends on computed values, except the replicas and the learners' states. Copying these
  // bytes and each replica into a world of the same options, after the same number of happenings, makes it
  // equal to this one.
  std::vector<MutableBytes> values();
  // REQUIRES: values.size() == options().arena_floats.
  void put_replica(std::uint32_t i, std::span<const float> values);

  // The energy of pairwise averaging in float32 with overlapping exchanges: the sum of m |v - mean|^2, in
  // double, over the parts (mass m, value v) of every machine with parameters, including lent chunks. Equals
  // the sum of |x - mean|^2 if nothing is in flight.
  double energy() const;

 private:
  void found(const std::vector<VirtualPeer*>& founders);  // they begin the run together

  // NetworkHost.
  Reach reach(std::uint32_t machine) const override;
  Instant awake(std::uint32_t machine) const override;
  void arrived(Connection& connection, std::uint32_t from, std::uint32_t to, Packet& packet) override;
  void broken(Connection& connection, std::uint32_t end, std::uint32_t epoch, bool undelivered) override;

  bool mutated(std::uint32_t from, std::uint32_t to, const wire::Message& message);

  Surroundings shared_;
  std::vector<std::unique_ptr<VirtualPeer>> peers_;
  std::vector<wire::Member> founders_;  // what they said of themselves
  std::unique_ptr<IncidentPlayer> player_;
};

}  // namespace starling::lab
