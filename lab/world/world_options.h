// The parts of a virtual world: machines, network, rule and incidents; and the outside view of it: a Watcher
// is called when something happens, a MachineView has the current state of a machine. Checkers, result
// writers and tests use them; the world never depends on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "gossip/meeting/answer_budget.h"
#include "gossip/peer.h"
#include "lab/world/faults.h"
#include "lab/world/learner.h"
#include "lab/world/network/virtual_network.h"
#include "lab/world/sabotage.h"
#include "models/arena.h"
#include "training/mixing/mixer.h"
#include "training/planner/schedule.h"
#include "training/planner/timing.h"

namespace starling::lab {

// ---- the outside view ----

enum class MachineState : std::uint8_t { waiting, running, finished, left, failed, crashed };

struct MachineView {
  const std::string& name;
  MachineState state;
  const models::Arena& arena;
  std::uint64_t steps, samples;  // of all instances
  const gossip::ExchangeCounts& exchanges;
  const training::MixCounters& mixed;  // of the latest instance
  std::uint64_t half_applied_chunks, bytes_sent;
  double loss;
  std::optional<double> learning_rate;        // of the latest step; nullopt before the first
  double slow;                                // factor at this moment
  const std::vector<float>& before_settling;  // empty until the training ended
  bool has_parameters;                        // began the run or has copied them, and has not lost them
  wire::Phase phase;
  PeerId id;                             // of the latest instance
  const gossip::Membership* membership;  // null before the start
  std::optional<Instant> training_since;
  const topologies::Topology* topology;  // the one it follows; null before it is prepared
  const gossip::Patience* patience;      // null before the start
  std::uint64_t round;
  const gossip::ExchangeCounts& earlier_exchanges;  // of former instances
  const training::MixCounters& earlier_mixed;       // of former instances, only the refused chunks

  std::span<const float> parameters() const { return {arena.data(), arena.size()}; }
};

// One side of a chunk's mix that has just been computed. The machine's arena holds the result.
struct Mix {
  std::uint32_t machine, partner;
  PeerId initiator;  // of the exchange: an instance
  std::uint64_t exchange;
  std::size_t chunk;
  const training::Parcel& offer;  // as it arrived at the responder, or was sent by the initiator
  const training::Parcel& reply;
  bool lied;  // one side sent other values than it computes with
  // In float32: the initiator's values, the responder's, and the responder's own snapshot of this chunk if it
  // is lent.
  std::span<const float> a, b, lent;
  float w;             // of the reply
  Duration age{0};     // at the initiator: since a was taken, by its own clock
  bool slept = false;  // at the initiator: it was paused since then
};

// An answer of a machine to another one's exchange.
struct AnswerChange {
  enum class What : std::uint8_t {
    began,
    moved,      // a chunk has arrived
    displaced,  // it is about to end, to make room for one of `further`
  };
  What what;
  PeerId from;
  std::uint64_t exchange;
  PeerId further{};
};

class Watcher {
 public:
  virtual ~Watcher() = default;

  virtual void started(std::uint32_t /*machine*/) {}  // a new instance is up
  virtual void ended(std::uint32_t /*machine*/, MachineState) {}
  virtual void event(std::uint32_t /*machine*/, const gossip::Event&) {}  // before the core receives it
  virtual void action(std::uint32_t /*machine*/, const gossip::Action&) {}
  // The core's next deadline is not later than its now.
  virtual void stood_still(std::uint32_t /*machine*/) {}

  virtual void has_parameters(std::uint32_t /*machine*/) {}
  // The parameters are no longer finite. May be called twice for one loss.
  virtual void lost_parameters(std::uint32_t /*machine*/) {}
  virtual void lent(std::uint32_t /*machine*/, const training::Parcel&) {}
  // The partner refused the exchange for which this was lent.
  virtual void taken_back(std::uint32_t /*machine*/, const training::Parcel&) {}
  virtual void step_began(std::uint32_t /*machine*/, Duration /*takes*/) {}
  virtual void step_ended(std::uint32_t /*machine*/) {}      // the arena may have changed
  virtual void step_discarded(std::uint32_t /*machine*/) {}  // it ended without an update
  virtual void answered(const Mix&) {}
  virtual void answer_changed(std::uint32_t /*machine*/, const AnswerChange&) {}
  virtual void completed(const Mix&) {}
  // The machine broke off its own exchange after it had sent this chunk and before the reply: the chunk
  // counts as half applied.
  virtual void half_applied(std::uint32_t /*machine*/, std::uint64_t /*exchange*/, std::size_t /*chunk*/) {}

  virtual void circuit_opened(std::uint32_t /*relay*/, std::uint32_t /*requester*/,
                              std::uint32_t /*target*/) {}

  virtual void poison_arrived(std::uint32_t /*machine*/, std::uint32_t /*from*/, bool /*refused*/) {}
  virtual void mutation_arrived(std::uint32_t /*machine*/, std::uint32_t /*from*/, bool /*refused*/) {}
};

// ---- the parts ----

// Of a machine whose devices are the stages of a pipeline without a flush: batches follow one another.
struct StreamOptions {
  training::PipelineShape shape;  // of the longest stream, after which the next one begins
  training::PipelineTimes times;
  bool vertical_sync = false;
};

struct MachineOptions {
  std::string name;
  Instant start{};               // of its process
  std::uint32_t workers = 1;     // Hogwild workers
  Duration step{0};              // mean time of one step of one worker, without slowdown
  double step_spread = 0;        // 0: all steps take equally long; 1: exponentially distributed
  std::vector<double> speeds{};  // of the workers' devices; empty: all 1
  std::shared_ptr<const StreamOptions> stream{};  // then there is one worker; else null
  wire::Program program{};                        // what its Joins say
};

// A function that returns the next of some incidents, ordered by beginning; nullopt after the last.
using Recurring = std::function<std::optional<Incident>()>;

struct WorldOptions {
  std::uint64_t seed = 1;
  VirtualNetworkOptions network;
  std::size_t arena_floats = 0;
  training::MixOptions mix;     // the rule's arithmetic; must name the rule of `rules`
  std::size_t chunk_cells = 4;  // cells in a chunk
  std::size_t window = 3;       // chunks sent and not yet answered
  wire::Manifest manifest;
  std::optional<gossip::RunRules> rules;  // of the manifest; must be set
  gossip::PeerOptions peer;               // limits and intervals, the same for all
  gossip::AnswerLimits answers{};         // of each driver; copies are not limited
  // The first machine to start begins the run, the others join through it. If several start first, `beginner`
  // begins if it is one of them, else the one with the lowest index.
  std::vector<MachineOptions> machines;
  std::uint32_t beginner = 0;
  // All machines that start first begin the run together instead, at once: they have the first parameters
  // and know each other. Only later ones join and copy.
  bool together = false;
  std::vector<Incident> incidents;
  std::vector<Recurring> recurring;  // the next incident is drawn when the previous one begins
  // How often a machine writes the addresses of the members it knows; 0: never. A restarted machine that has
  // such addresses joins through them, and begins the run again if no member answers within `begin_after`.
  Duration cache_interval{0};
  Duration begin_after = std::chrono::seconds(20);
  Watcher* watcher = nullptr;    // may be null; must outlive the world
  Sabotage* sabotage = nullptr;  // may be null; must outlive the world

  std::size_t chunk_floats() const { return mix.cell_floats * chunk_cells; }
  std::size_t chunks() const { return (arena_floats - 1) / chunk_floats() + 1; }
};

// Makes the learner of a machine, for each of its instances.
using MakeLearner = std::function<std::unique_ptr<Learner>(std::uint32_t machine)>;

}  // namespace starling::lab
