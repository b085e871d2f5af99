// The virtual driver of the core: machines with a gossip::Peer, an arena and a learner each, on virtual
// links, in one event queue, under a schedule of incidents (lab/faults.h). The protocol decisions are the
// product's (gossip), the exchange arithmetic is the product's (training/exchange); only sockets, clocks,
// disks and threads are played. docs/ARCHITECTURE.md sets the two drivers side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "gossip/peer.h"
#include "lab/world/event_queue.h"
#include "lab/world/faults.h"
#include "lab/world/learner.h"
#include "lab/world/sabotage.h"
#include "lab/world/virtual_network.h"
#include "lab/world/watcher.h"
#include "models/arena.h"
#include "training/exchange/make.h"

namespace starling::lab {

struct MachineOptions {
  std::string name;
  Instant start{};            // when its process starts
  std::uint32_t workers = 1;  // Hogwild workers
  Duration step{0};           // mean time of one step of one worker, unslowed
  double step_spread = 0;     // 0: steps take equally long; 1: exponentially distributed
};

struct WorldOptions {
  std::uint64_t seed = 1;
  NetworkOptions network;
  std::size_t arena_floats = 0;
  training::MixOptions mix;     // the rule's arithmetic; its name is that of `rules`
  std::size_t chunk_cells = 4;  // a chunk's
  std::size_t window = 3;       // chunks sent and not yet answered
  wire::Manifest manifest;
  std::optional<gossip::RunRules> rules;  // of the manifest; must be set
  gossip::PeerOptions peer;               // what is the same for all: limits and intervals
  // The first to start begins the run, the others join through it; of several that start first `beginner`, if
  // it is one of them, else the first.
  std::vector<MachineOptions> machines;
  std::uint32_t beginner = 0;
  std::vector<Incident> incidents;
  // What recurs: each gives its next incident, in the order of their beginnings, or none any more. It is
  // asked as time goes on.
  std::vector<std::function<std::optional<Incident>()>> recurring;
  // How often a machine writes the addresses of the members it knows; 0: never. A new instance that finds
  // them joins through these, and begins the run anew if nobody has answered after so long.
  Duration cache_interval{0};
  Duration begin_after = std::chrono::seconds(20);
  Watcher* watcher = nullptr;  // outlives the world, as does:
  Sabotage* sabotage = nullptr;

  std::size_t chunk_floats() const { return mix.cell_floats * chunk_cells; }
};

class World final : private NetworkHost {
 public:
  // A learner and the first parameters for machine i. Only the beginner starts from those; the others copy.
  using MakeLearner = std::function<std::unique_ptr<Learner>(std::uint32_t machine)>;
  World(WorldOptions options, MakeLearner make_learner, std::vector<float> first_parameters);
  ~World();

  // Runs one happening; false when nothing is left to happen (what a pause without end holds up never does).
  bool run_one();
  // Runs until every machine is over.
  void run();
  // Asks every machine to end its run now.
  void end_all();
  // Replaces a machine's replica, for measurements that begin from known parameters. REQUIRES: quiet(), the
  // machine has parameters, values.size() == options().arena_floats.
  void set_parameters(std::uint32_t i, std::span<const float> values);
  // No machine runs or waits for its first start.
  bool over() const { return open_ == 0; }

  Instant now() const { return queue_.now(); }
  std::size_t pending() const { return queue_.size(); }  // happenings that are scheduled
  std::uint64_t happenings() const { return queue_.scheduled() - queue_.size(); }
  std::size_t machines() const { return machines_.size(); }

  struct MachineView {
    const std::string& name;
    MachineState state;
    const models::Arena& arena;
    std::uint64_t steps, samples;  // of all its instances
    const gossip::ExchangeCounts& exchanges;
    const training::MixCounters& mixed;  // of the latest instance
    std::uint64_t half_applied_chunks, bytes_sent;
    double loss;
    std::optional<double> learning_rate;        // of the latest step; nullopt before that
    double slow;                                // factor at this moment
    const std::vector<float>& before_settling;  // empty until its training ended
    bool has_parameters;                        // began the run or has copied them, and has not lost them
    wire::Phase phase;
    PeerId id;                             // of the latest instance
    const gossip::Membership* membership;  // what it knows of the others; null before its start
    std::optional<Instant> training_since;
    const topologies::Topology* topology;  // that it follows; null before it is prepared
    const gossip::Patience* patience;      // null before its start
    std::uint64_t round;
    const gossip::ExchangeCounts& earlier_exchanges;  // of its former instances, as the next one
    const training::MixCounters& earlier_mixed;       // what was refused, alone
  };
  MachineView machine(std::uint32_t i) const;
  // The machine whose instance, present or past, has this id.
  std::optional<std::uint32_t> machine_of(PeerId id) const;
  // For how long a machine was paused within an interval.
  Duration paused_within(std::uint32_t i, Instant from, Instant to) const;
  // Its pauses, past and to come, in the order of their beginnings.
  std::span<const Interval> pauses(std::uint32_t i) const;

  std::uint64_t samples() const { return samples_; }  // of all machines
  std::uint64_t trace_hash() const { return trace_; }
  // When the first step of any machine began; nullopt before that.
  std::optional<Instant> training_began() const { return training_began_; }
  const VirtualNetwork& network() const { return network_; }
  // The longest that any queue of messages ever was.
  std::size_t longest_queue() const;
  const WorldOptions& options() const { return options_; }

  // What depends on the values that were computed, and not only on what happened when: but the replicas and
  // what learners have. A world of the same options in which as much has happened becomes this one when these
  // are copied into its own, and each machine's replica into its replica.
  std::vector<MutableBytes> values();
  // REQUIRES: as many as the machine's replica has.
  void put_replica(std::uint32_t i, std::span<const float> values);

  // The energy of «Overlap», of pairwise averaging in float32: sum of m |v - mean|^2 over the parts of every
  // machine that has parameters, in double, with the loans that are out. Equals sum |x - mean|^2 when nothing
  // is in flight.
  double energy() const;
  // True if no exchange is under way. (What a crashed machine had lent stays lent.)
  bool quiet() const { return exchanges_under_way_ == 0; }

 private:
  struct Machine;
  struct Own;
  struct Answer;

  // NetworkHost.
  Reach reach(std::uint32_t machine) const override;
  Instant awake(std::uint32_t machine) const override;
  void arrived(Connection& connection, std::uint32_t from, std::uint32_t to, Packet& packet) override;
  void broken(Connection& connection, std::uint32_t end, std::uint32_t epoch, bool undelivered) override;

  // A machine's life (world.cc).
  void play(const Incident& incident);
  void follow(std::size_t k);
  void play_one(const Crash& crash);
  void play_one(const Leave& leave);
  void play_one(const Pause& pause);
  void play_one(const Slow& slow);
  void play_one(const SlowDisk& disk);
  void play_one(const Drift& drift);
  void play_one(const Poison& poison);
  void play_one(const Loss& loss);
  void play_one(const Cut& cut);
  void play_one(const Partition& partition);
  void play_one(const Clog& clog);
  void play_one(const PoorLinks& links);
  void play_one(const Reset& reset);
  void play_one(const HalfOpen& half_open);
  void play_one(const Rewiring& rewiring);
  void play_one(const Mutation& mutation);
  void start_machine(std::uint32_t i);
  void restart(std::uint32_t i, Instant at, bool cached, bool patient = false);
  void introduce(std::uint32_t i, gossip::PeerOptions& peer, bool cached) const;
  void write_cache(std::uint32_t i);
  void take_down(std::uint32_t i, MachineState state, bool silent = false);

  // The driver's loop.
  void step(std::uint32_t i, gossip::Event event);
  void wake(std::uint32_t i);
  void carry_out(std::uint32_t i, std::vector<gossip::Action>& actions);
  void act(std::uint32_t i, gossip::Send& send);
  void act(std::uint32_t i, const gossip::Prepare& prepare);
  void act(std::uint32_t i, const gossip::FetchState& fetch);
  void act(std::uint32_t i, const gossip::AbortFetch&);
  void act(std::uint32_t i, const gossip::StartTraining& start);
  void act(std::uint32_t i, const gossip::StopTraining&);
  void act(std::uint32_t i, const gossip::PauseTraining& pause);
  void act(std::uint32_t i, const gossip::ResumeTraining& resume);
  void act(std::uint32_t i, const gossip::BeginRound& round);
  void act(std::uint32_t i, const gossip::TrainingEnded&);
  void act(std::uint32_t i, const gossip::BeginExchange& begin);
  void act(std::uint32_t i, const gossip::AbortExchange& abort);
  void act(std::uint32_t i, const gossip::AnswerOffer& answer);
  void act(std::uint32_t i, const gossip::Rewired&) { static_cast<void>(i); }
  void act(std::uint32_t i, const gossip::Finish& finish);
  void act(std::uint32_t i, const gossip::Notice&) { static_cast<void>(i); }
  // Schedules something for a machine: dropped if that instance is down by then, put off while it is paused.
  template <class Happening>
  void later(Instant at, std::uint32_t i, Happening happening);

  void begin_steps(std::uint32_t i);
  void begin_step(std::uint32_t i, std::uint32_t worker);
  void end_step(std::uint32_t i, std::uint32_t worker, std::uint64_t era);
  static training::Mixer& mixing(Machine& machine);
  bool mutated(std::uint32_t from, std::uint32_t to, const wire::Message& message);

  // Bulk (world_bulk.cc).
  Block new_block(std::size_t bytes);
  PacketPtr packet(std::uint32_t from, Packet::Kind kind, std::uint64_t exchange, std::size_t bytes) const;
  void send_values(Connection& connection, std::uint32_t from, PacketPtr packet,
                   const training::Parcel& parcel, const Block& block);
  void spoil(Machine& machine, const Poison& poison, Packet& packet);
  void diverged(std::uint32_t i);
  void send_chunks(std::uint32_t i, Own& own);
  void answer_waiting(std::uint32_t i, PeerId from, std::uint64_t exchange);
  void answer_chunk(std::uint32_t i, std::uint32_t from, Connection& connection, Packet& packet);
  void answer_accepted(std::uint32_t i, std::uint32_t from, Connection& connection, Answer& answer,
                       const Packet& packet);
  Answer* answer_of(std::uint32_t i, PeerId from, std::uint64_t exchange);
  void take_reply(std::uint32_t i, const Packet& packet);
  void take_refusal(std::uint32_t i, const Packet& packet);
  void abort_own(std::uint32_t i, std::uint64_t exchange);
  void end_own(std::uint32_t i, Own& own, std::uint64_t round = 0);
  void close_own(std::uint32_t i, Own& own);
  void end_answer(std::uint32_t i, PeerId from, std::uint64_t exchange);
  void end_answers(std::uint32_t i, const Connection& connection, std::uint32_t epoch);
  void give_state(std::uint32_t donor, std::uint32_t to, Connection& connection, const Packet& request);
  void send_state(std::uint32_t donor, std::uint32_t to, std::uint32_t epoch, std::size_t chunk,
                  std::uint64_t attempt);
  void take_state(std::uint32_t i, Connection& connection, const Packet& packet);
  void lose_state(std::uint32_t i, const char* why, bool poisoned);

  void trace(std::uint32_t i, std::uint64_t kind, std::uint64_t detail);
  std::uint32_t index_of(PeerId id) const { return by_id_.at(id.value); }
  PeerId new_id(std::uint32_t i);

  WorldOptions options_;
  MakeLearner make_learner_;
  std::vector<float> first_parameters_;
  Random random_, ids_, spoiling_;
  EventQueue queue_;
  VirtualNetwork network_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::unordered_map<std::string, std::uint32_t> by_host_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_id_;
  std::vector<Block::Reference> blocks_;  // all that may live, in the order of their making
  std::size_t blocks_swept_ = 0;          // how many lived when those that did not were last thrown out
  std::vector<Mutation> mutations_;
  std::vector<std::optional<Incident>> upcoming_;  // of options_.recurring
  std::vector<gossip::Action> actions_;
  std::uint32_t beginner_ = 0;
  std::size_t open_ = 0;
  std::size_t exchanges_under_way_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t trace_ = 0;
  std::optional<Instant> training_began_;
};

}  // namespace starling::lab
