// The virtual driver of the core: machines with a gossip::Peer, an arena and a learner each, on virtual
// links, in one event queue. The protocol decisions are the product's (gossip), the exchange arithmetic is
// the product's (training/exchange); only sockets, clocks and threads are played. docs/ARCHITECTURE.md sets
// the two drivers side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "gossip/peer.h"
#include "lab/event_queue.h"
#include "lab/learner.h"
#include "lab/virtual_network.h"
#include "models/arena.h"
#include "training/exchange.h"

namespace starling::lab {

struct MachineOptions {
  std::string name;
  Instant start;              // when its process starts
  std::uint32_t workers = 1;  // Hogwild workers
  Duration step{0};           // time of one step of one worker, unslowed
  struct Slow {
    double factor;
    Instant from, to;
  };
  std::vector<Slow> slow;
  struct Pause {
    Instant from, to;
  };
  std::vector<Pause> pauses;  // nothing happens on the machine meanwhile; what arrives waits
  std::optional<Instant> crash, leave;
};

struct WorldOptions {
  std::uint64_t seed = 1;
  NetworkOptions network;
  std::size_t arena_floats = 0;
  std::size_t chunk_floats = training::kDefaultChunkFloats;
  std::size_t window = training::kDefaultWindow;
  wire::Manifest manifest;
  std::optional<gossip::RunRules> rules;  // of the manifest; must be set
  gossip::MembershipOptions membership;
  std::vector<MachineOptions> machines;  // the first to start begins the run, the others join through it
};

enum class MachineState : std::uint8_t { waiting, running, finished, left, failed, crashed };

class World {
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

  Instant now() const { return queue_.now(); }
  std::size_t pending() const { return queue_.size(); }  // happenings that are scheduled
  std::size_t machines() const { return machines_.size(); }

  struct MachineView {
    const std::string& name;
    MachineState state;
    const models::Arena& arena;
    std::uint64_t steps, samples;
    const gossip::ExchangeCounts& exchanges;
    std::uint64_t half_applied_chunks, bytes_sent;
    double loss;
    double slow;                                // factor at this moment
    const std::vector<float>& before_settling;  // empty until its training ended
    bool has_parameters;                        // began the run or has copied them
    wire::Phase phase;
    PeerId id;
    const gossip::Membership* membership;  // what it knows of the others; null before its start
  };
  MachineView machine(std::uint32_t i) const;

  std::uint64_t samples() const { return samples_; }  // of all machines
  std::uint64_t trace_hash() const { return trace_; }
  // When the first step of any machine began; nullopt before that.
  std::optional<Instant> training_began() const { return training_began_; }

  // The energy of «Overlap»: sum of m |v - mean|^2 over the parts of every machine that has parameters, in
  // double, with the loans that are out. Equals sum |x - mean|^2 when nothing is in flight.
  double energy() const;
  // True if no exchange is under way. (What a crashed machine had lent stays lent.)
  bool quiet() const;

 private:
  struct Machine;
  struct Own;

  void start_machine(std::uint32_t i);
  void step(std::uint32_t i, const gossip::Event& event);
  void carry_out(std::uint32_t i, std::vector<gossip::Action>& actions);
  void act(std::uint32_t i, const gossip::Send& send);
  void act(std::uint32_t i, const gossip::Prepare& prepare);
  void act(std::uint32_t i, const gossip::FetchState& fetch);
  void act(std::uint32_t i, const gossip::AbortFetch&);
  void act(std::uint32_t i, const gossip::StartTraining&);
  void act(std::uint32_t i, const gossip::StopTraining&);
  void act(std::uint32_t i, const gossip::TrainingEnded&);
  void act(std::uint32_t i, const gossip::BeginExchange& begin);
  void act(std::uint32_t i, const gossip::AbortExchange& abort);
  void act(std::uint32_t i, const gossip::AnswerOffer& answer);
  void act(std::uint32_t i, const gossip::Finish& finish);
  void act(std::uint32_t i, const gossip::Notice&);

  // Schedules something for a machine: dropped if it is down by then, put off while it is paused.
  void later(Instant at, std::uint32_t i, std::function<void()> happening);
  // Sends `bytes` and lets `arrive` happen at the other end; `lost` happens here if nobody is up there.
  VirtualNetwork::Passage transmit(std::uint32_t from, std::uint32_t to, wire::Purpose purpose,
                                   std::size_t bytes, std::function<void()> arrive,
                                   std::function<void()> lost);
  void begin_step(std::uint32_t i, std::uint32_t worker);
  void send_chunks(std::uint32_t i);
  void answer_chunk(std::uint32_t i, std::uint32_t from, std::uint64_t exchange, std::size_t chunk,
                    const std::shared_ptr<std::vector<float>>& a);
  void take_reply(std::uint32_t i, std::uint64_t exchange, std::size_t chunk,
                  const std::shared_ptr<std::vector<float>>& b, float w);
  void give_up(std::uint32_t i);  // the own exchange in flight
  void end_own(std::uint32_t i, gossip::Outcome outcome);
  void end_answer(std::uint32_t i, std::uint32_t from, std::uint64_t exchange);
  void send_state(std::uint32_t donor, std::uint32_t to, std::size_t chunk, std::uint64_t attempt);
  void take_down(std::uint32_t i, MachineState state);
  void trace(std::uint32_t i, std::uint64_t kind, std::uint64_t detail);
  std::uint32_t index_of(PeerId id) const;

  WorldOptions options_;
  MakeLearner make_learner_;
  Random random_;
  EventQueue queue_;
  VirtualNetwork network_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::map<Address, std::uint32_t> by_address_;
  std::map<PeerId, std::uint32_t> by_id_;
  std::uint32_t beginner_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t trace_ = 0;
  std::optional<Instant> training_began_;
};

}  // namespace starling::lab
