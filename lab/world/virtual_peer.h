// One peer of a virtual world on its machine: a gossip::Peer as its core, a replica, its training, exchanges
// and copies. This is the driver's loop in virtual time: an event comes in, the core steps, act() carries out
// the actions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossip/peer.h"
#include "lab/world/machine_view.h"
#include "lab/world/virtual_copies.h"
#include "lab/world/virtual_exchanges.h"
#include "lab/world/virtual_machine.h"
#include "lab/world/virtual_replica.h"
#include "lab/world/virtual_training.h"

namespace starling::lab {

class VirtualPeer final : public VirtualMachine {
 public:
  VirtualPeer(Surroundings& world, std::uint32_t index);

  enum class Cache : std::uint8_t { kept, lost };  // addresses of members, on disk
  enum class IfStillUp : std::uint8_t {
    stay,
    wait
  };             // what a restart does with an instance that has not ended
  void start();  // an instance
  // Starts a new instance then, unless this peer has finished the run or was never started.
  void restart(Instant at, Cache cache, IfStillUp if_still_up);
  void crash(bool silent);
  void leave();
  void rewire(const std::string& topology);
  // Loses the replica: the device that holds it is gone, or some of its parameters become NaN.
  void lose_replica(bool device);
  void end_run();
  // Begins with these parameters, as the machine that begins the run.
  void begin_with(std::span<const float> values);
  // Replaces the parameters.
  void set_parameters(std::span<const float> values);
  void put_replica(std::span<const float> values) { replica_.arena->write(0, values); }

  void step(gossip::Event event) override;
  void arrived(VirtualPeer& from, Connection& connection, Packet& packet);
  void connection_broke(Connection& connection, std::uint32_t epoch);

  MachineView view() const;
  bool has_parameters() const { return replica_.present; }
  const models::Arena& arena() const { return *replica_.arena; }
  const VirtualExchanges& exchanges() const { return exchanges_; }
  // Appends what depends on computed values, except the replica and what the learner has.
  void values(std::vector<MutableBytes>& out);

 private:
  void introduce(gossip::PeerOptions& peer) const;
  void write_cache();
  void keep_counts();
  void take_down(MachineState state, bool silent = false);
  void wake();

  void act(gossip::Send& send);
  void act(const gossip::Prepare& prepare);
  void act(const gossip::FetchState& fetch) { copies_.fetch(fetch); }
  void act(const gossip::AbortFetch&) { copies_.abort(); }
  void act(const gossip::StartTraining& start);
  void act(const gossip::StopTraining&) { training_.stop(); }
  void act(const gossip::PauseTraining& pause);
  void act(const gossip::ResumeTraining& resume);
  void act(const gossip::BeginRound& round);
  void act(const gossip::TrainingEnded&);
  void act(const gossip::BeginExchange& begin) { exchanges_.begin(begin); }
  void act(const gossip::AbortExchange& abort) { exchanges_.abort(abort); }
  void act(const gossip::AnswerOffer& answer) { exchanges_.answer(answer); }
  void act(const gossip::Rewired&) {}
  void act(const gossip::Finish& finish);
  void act(const gossip::Notice&) {}

  VirtualReplica replica_;
  VirtualTraining training_;
  VirtualExchanges exchanges_;
  VirtualCopies copies_;
  std::optional<gossip::Peer> core_;
  Instant tick_at_ = kNever;    // when the scheduled tick that counts is due
  bool started_ = false;        // from now on the arena is this instance's replica
  std::vector<Address> cache_;  // addresses of members, on disk
  std::vector<float> before_settling_;
  gossip::ExchangeCounts earlier_exchanges_;  // of its former instances
  training::MixCounters earlier_mixed_;       // of its former instances, the refused chunks only
};

}  // namespace starling::lab
