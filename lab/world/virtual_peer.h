// One peer of a virtual world on its machine: a gossip::Peer as its core, a replica, training, exchanges and
// copies. It contains the driver's loop in virtual time: an event arrives, the core steps, act() executes the
// actions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gossip/peer.h"
#include "lab/world/learner.h"
#include "lab/world/network/virtual_identity.h"
#include "lab/world/network/virtual_reach.h"
#include "lab/world/virtual_exchanges.h"
#include "lab/world/virtual_machine.h"
#include "lab/world/virtual_stream.h"

namespace starling::lab {

// The steps of a virtual peer, as node::Trainer in the daemon: its workers compute on the replica, take
// virtual time, and pause or stop when the core requests it.
class VirtualTraining {
 public:
  VirtualTraining(VirtualMachine& machine, VirtualReplica& replica, Surroundings& world)
      : machine_(machine), replica_(replica), world_(world) {
    if (machine.options().stream)
      stream_.emplace(
          machine, replica, [this] { count_step(); }, [this] { begin_steps(); });
  }

  // A new instance with this core begins.
  void clear(const gossip::Peer& core) {
    core_ = &core;
    if (stream_) stream_->clear();
    running_ = resting_ = false;
    allowed_ = UINT64_MAX;
    since_.reset();
    earlier_steps_ += std::exchange(steps_, 0);
    earlier_samples_ += std::exchange(samples_, 0);
  }

  void start() {
    running_ = true;
    since_ = machine_.now();
    if (!world_.training_began) world_.training_began = machine_.now();
    stepping_.assign(machine_.options().workers, false);
    replica_.learner->start(*replica_.arena);
    begin_steps();
  }

  void stop() {
    running_ = false;
    drop_batches();
  }
  // As Trainer::allow_samples(); of this instance.
  void allow_samples(std::uint64_t samples) {
    allowed_ = samples;
    begin_steps();
  }
  // `discard`: steps under way are discarded when they end.
  void pause(bool discard) {
    resting_ = true;
    if (!discard) return;
    ++era_;
    drop_batches();
  }
  void resume() {
    resting_ = false;
    begin_steps();
  }

  std::optional<Instant> since() const { return since_; }
  // Sums over all instances.
  std::uint64_t steps() const { return earlier_steps_ + steps_; }
  std::uint64_t samples() const { return earlier_samples_ + samples_; }

 private:
  // On every idle worker, unless training has stopped or is paused.
  void begin_steps() {
    if (stream_) return feed_stream();
    if (!running_ || resting_) return;
    for (std::uint32_t worker = 0; worker < machine_.options().workers; ++worker) {
      if (!stepping_[worker] && may_begin_step()) begin_step(worker);
    }
  }

  bool may_begin_step() const {
    // No batch follows the last step, so that those before it come out (TrainerOptions::last_step in the
    // daemon).
    if (const auto& last = world_.options.rules->end.steps;
        stream_ && last && steps_ + stream_->under_way() >= *last)
      return false;
    const auto under_way =
        stream_ ? stream_->under_way()
                : static_cast<std::uint64_t>(std::count(stepping_.begin(), stepping_.end(), true));
    return samples_ + under_way * batch_ < allowed_;
  }

  void begin_step(std::uint32_t worker) {
    stepping_[worker] = true;
    const MachineOptions& options = machine_.options();
    double seconds = to_seconds(options.step) * machine_.mishaps().slowness_of_step(machine_.now(), begun_++);
    if (options.step_spread > 0)
      seconds *= 1 - options.step_spread + options.step_spread * machine_.random().exponential();
    if (!options.speeds.empty()) seconds /= options.speeds[worker];
    const Duration time = std::max(Duration{1}, from_seconds(seconds)) + replica_.learner->waits(worker);
    const Instant end = machine_.now() + time;
    replica_.learner->begin_step(worker, *replica_.arena, end);
    world_.watcher.step_began(machine_.index(), time);
    machine_.later(end, [this, worker, era = era_] { end_step(worker, era); });
  }

  void end_step(std::uint32_t worker, std::uint64_t era) {
    stepping_[worker] = false;
    if (!running_ || era != era_) {
      discard_step(worker);
      return begin_steps();
    }
    replica_.learner->swarm_has_consumed(core_->view().swarm_samples);
    count_step(worker);
    if (machine_.up()) begin_steps();
  }

  // Of a stream: the next batch, if there may be one, else those under way come out.
  void feed_stream() {
    if (!stream_->awaits_batch()) return;
    if (!running_ || resting_ || !may_begin_step()) return stream_->end();
    replica_.learner->swarm_has_consumed(core_->view().swarm_samples);
    world_.watcher.step_began(machine_.index(), machine_.options().step);
    stream_->feed(begun_++);
  }

  void drop_batches() {
    if (!stream_) return;
    const std::uint64_t lost = stream_->under_way();
    stream_->clear();
    for (std::uint64_t k = 0; k < lost; ++k) discard_step(0);
  }

  void discard_step(std::uint32_t worker) {
    replica_.learner->discard_step(worker);
    world_.watcher.step_discarded(machine_.index());
  }

  void count_step(std::uint32_t worker = 0) {
    const std::uint64_t consumed = replica_.learner->end_step(worker, *replica_.arena);
    ++steps_;
    batch_ = consumed;
    samples_ += consumed;
    world_.samples += consumed;
    world_.watcher.step_ended(machine_.index());
    machine_.step(gossip::Stepped{steps_, samples_});
  }

  VirtualMachine& machine_;
  VirtualReplica& replica_;
  Surroundings& world_;
  std::optional<VirtualStream> stream_;  // of a machine whose batches follow one another
  const gossip::Peer* core_ = nullptr;
  bool running_ = false;
  bool resting_ = false;        // between pause() and resume()
  std::uint64_t era_ = 0;       // number of discards: a step of an earlier era is discarded
  std::vector<bool> stepping_;  // by worker
  std::optional<Instant> since_;
  std::uint64_t batch_ = 0;                                // samples of the latest step
  std::uint64_t allowed_ = UINT64_MAX;                     // samples of this instance
  std::uint64_t steps_ = 0, samples_ = 0;                  // of this instance
  std::uint64_t earlier_steps_ = 0, earlier_samples_ = 0;  // of former instances
  std::uint64_t begun_ = 0;                                // steps of all instances
};

// Copies of a replica, to a peer that joins or has lost its replica: the sides of the joiner, which fetches,
// and of the donor, which gives.
class VirtualCopies {
 public:
  VirtualCopies(VirtualMachine& machine, VirtualReach& reach, VirtualReplica& replica, Surroundings& world)
      : machine_(machine), reach_(reach), replica_(replica), world_(world) {}

  // Joiner.
  void fetch(const gossip::FetchState& fetch);
  void abort();
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
  VirtualReach& reach_;
  VirtualReplica& replica_;
  Surroundings& world_;
  // State of the joiner.
  std::uint64_t attempt_ = 0;  // chunks of earlier attempts are dropped
  bool active_ = false;
  Connection* connection_ = nullptr;
  std::uint32_t epoch_ = 0;   // of the connection
  std::size_t in_place_ = 0;  // chunks, from any donor
};

class VirtualPeer final : public VirtualMachine {
 public:
  VirtualPeer(Surroundings& world, std::uint32_t index);

  enum class Cache : std::uint8_t { kept, lost };      // addresses of members, on disk
  enum class IfStillUp : std::uint8_t { stay, wait };  // a restart while the former instance is up
  // Starts an instance. One that founds() holds the first parameters and its training then.
  void start();
  // Starts a new instance at `at`, unless this peer has finished the run or was never started.
  void restart(Instant at, Cache cache, IfStillUp if_still_up);
  void crash(bool silent) {
    if (up()) take_down(MachineState::crashed, silent);
  }
  // A request of a user or of the world: gossip::LeaveRequested, RewireRequested or EndRequested.
  template <class Request>
  void request(Request request) {
    if (up()) later(now(), [this, it = std::move(request)] { step(it); });
  }
  // Sends lies to the members that it knows.
  void lie(LieKind kind);
  // Makes no exchange until then, neither its own nor others'.
  void fall_silent(Instant until) { silent_until_ = std::max(silent_until_, until); }
  // Loses the replica: its device fails, or some of its parameters become NaN.
  void lose_replica(bool device);
  // Takes these parameters as the machine that begins the run.
  void begin_with(std::span<const float> values);
  // Replaces the parameters.
  void set_parameters(std::span<const float> values);
  void put_replica(std::span<const float> values) { replica_.arena->write(0, values); }

  void step(gossip::Event event) override;
  VirtualReach& reach() override { return reach_; }
  void arrived(VirtualPeer& from, Connection& connection, Packet& packet);
  void connection_broke(Connection& connection, std::uint32_t epoch);

  MachineView view() const;
  bool has_parameters() const { return replica_.present; }
  const models::Arena& arena() const { return *replica_.arena; }
  const VirtualExchanges& exchanges() const { return exchanges_; }
  // Appends all memory that depends on computed values, except the replica and the learner's state.
  void values(std::vector<MutableBytes>& out);

 private:
  void introduce(gossip::PeerOptions& peer) const;
  void offer_nothing();
  void write_cache();
  void keep_counts();
  void take_down(MachineState state, bool silent = false);
  void wake();

  void act(gossip::Send& send) { reach_.send(send.to, std::move(send.message)); }
  void act(const gossip::Prepare& prepare);
  void act(const gossip::TryDial& dial) { reach_.act(dial); }
  void act(const gossip::AnswerCall& call) { reach_.act(call); }
  void act(const gossip::FetchState& fetch) { copies_.fetch(fetch); }
  void act(const gossip::AbortFetch&) { copies_.abort(); }
  void act(const gossip::HoldTraining&);
  void act(const gossip::StartTraining& start);
  void act(const gossip::AllowSamples& allow) { training_.allow_samples(allow.samples); }
  void act(const gossip::StopTraining&) {
    training_.stop();
    replica_.learner->stop();
    replica_.mixer->settle();
  }
  void act(const gossip::PauseTraining& pause);
  void act(const gossip::ResumeTraining& resume);
  void act(const gossip::BeginRound& round);
  void act(const gossip::TrainingEnded&);
  void act(const gossip::BeginExchange& begin) {
    if (silent_until_ <= now()) return exchanges_.begin(begin);
    later(now() + std::chrono::milliseconds(1), [this, exchange = begin.exchange] {
      step(gossip::ExchangeEnded{exchange, gossip::Outcome::aborted});
    });
  }
  void act(const gossip::AbortExchange& abort) { exchanges_.abort(abort); }
  void act(const gossip::AnswerOffer& answer) { exchanges_.answer(answer); }
  void act(const gossip::Finish& finish);
  template <class Other>
  void act(const Other&) {}

  VirtualReach reach_;
  VirtualReplica replica_;
  VirtualTraining training_;
  VirtualExchanges exchanges_;
  VirtualCopies copies_;
  std::optional<VirtualIdentity> identity_;
  std::optional<gossip::Peer> core_;
  Instant tick_at_ = kNever;         // when the next valid tick is due
  Instant answers_falsely_until_{};  // a liar: that targets of requests have answered
  Instant silent_until_{};           // a liar: makes no exchange
  bool started_ = false;             // the arena is this instance's replica
  std::vector<Address> cache_;       // addresses of members, on disk
  std::vector<float> before_settling_;
  gossip::ExchangeCounts earlier_exchanges_;  // of former instances
  training::MixCounters earlier_mixed_;       // of former instances, only the refused chunks
};

}  // namespace starling::lab
