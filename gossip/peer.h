// The pure core of a Starling peer: a state machine without I/O, clock, threads or log. The daemon (node) and
// the simulator (lab) are its two drivers. A driver's duties, in this order:
//
//   std::vector<gossip::Action> actions;
//   peer.step(now, gossip::Start{}, actions);
//   for (;;) {
//     carry out `actions` in order, then clear them;      // a Finish is the last one
//     wait for an event, or until peer.next_deadline();
//     peer.step(now, event, actions);                     // Tick{} at the deadline; `now` never decreases
//   }
//
// A peer begins a run or joins one (Join, Welcome), prepares (model, data), and copies a member's parameters
// unless it began the run. It then trains and exchanges. At the run's end it settles (a few more exchanges
// without training), is finished, answers its neighbors until they have settled too, and stops. It may leave
// at any time.
//
// Peer routes events to its parts and orders them. Each part is a machine of its own:
//
//   Membership   who is in the swarm, and who lives
//   Joining      how the peer gets into the run
//   Copying      a member's parameters, for the first replica or a new one
//   Recovery     what to do when the own replica is lost
//   Rewiring     the topology, which may change while the run goes on
//   Encounters   when, with whom and on what terms to exchange; one class for each kind of rule
//   Exchanges    those in flight, and those answered
//   Ending       the run's end, settling, leaving
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gossip/actions.h"
#include "gossip/copying.h"
#include "gossip/encounters.h"
#include "gossip/ending.h"
#include "gossip/events.h"
#include "gossip/exchanges.h"
#include "gossip/joining.h"
#include "gossip/peer_options.h"
#include "gossip/recovery.h"
#include "gossip/rewiring.h"
#include "gossip/run_state.h"

namespace starling::gossip {

class Peer {
 public:
  explicit Peer(PeerOptions options);
  Peer(Peer&&) = delete;  // its parts refer to one another

  // Appends what should be done to `out`. REQUIRES: the first event is Start; nothing follows a Finish.
  void step(Instant now, const Event& event, std::vector<Action>& out);
  // When to step with a Tick at the latest; always later than the last `now`.
  Instant next_deadline() const { return deadline_; }

  // For telemetry; valid until the next step.
  struct View {
    const Membership& membership;
    const ExchangeCounts& exchanges;
    std::uint64_t swarm_samples;
    Instant run_start;
    const topologies::Topology* topology;  // null before the peer is prepared
    std::uint64_t round;                   // the latest that it began; 0: none
    const Patience& patience;              // with partners in exchanges
    bool diverged;                         // its replica is lost and not replaced yet: nobody may copy it
    bool over;
  };
  View view() const;

  // Why a RewireRequested with this topology would be rejected, in a sentence; nullopt if it would not.
  std::optional<std::string> obstacle_to_setting(const topologies::Topology& topology) const {
    return rewiring_.obstacle_to_setting(topology);
  }

 private:
  void handle(const Start&, std::vector<Action>& out);
  void handle(const Received&, std::vector<Action>& out);
  void handle(const Unreachable&, std::vector<Action>& out);
  void handle(const Prepared&, std::vector<Action>& out);
  void handle(const PrepareFailed&, std::vector<Action>& out);
  void handle(const StateAdvanced&, std::vector<Action>& out);
  void handle(const StateArrived&, std::vector<Action>& out);
  void handle(const StateLost&, std::vector<Action>& out);
  void handle(const Stepped&, std::vector<Action>& out);
  void handle(const VitalsMeasured&, std::vector<Action>& out);
  void handle(const ExchangeAdvanced&, std::vector<Action>& out);
  void handle(const ExchangeEnded&, std::vector<Action>& out);
  void handle(const ExchangeOffered&, std::vector<Action>& out);
  void handle(const AnswerEnded&, std::vector<Action>& out);
  void handle(const ReplicaDiverged&, std::vector<Action>& out);
  void handle(const ReplicaGone&, std::vector<Action>& out);
  void handle(const EndRequested&, std::vector<Action>& out);
  void handle(const LeaveRequested&, std::vector<Action>& out);
  void handle(const Introduced&, std::vector<Action>& out);
  void handle(const RewireRequested&, std::vector<Action>& out);
  void handle(const Tick&, std::vector<Action>& out);

  void run_timers(std::vector<Action>& out);
  void start_training(std::vector<Action>& out);
  void maybe_end_training(std::vector<Action>& out);
  void maybe_finish(std::vector<Action>& out);
  void maybe_leave(std::vector<Action>& out);
  Instant earliest_deadline() const;

  RunState run_;
  Joining joining_{run_};
  Copying copying_{run_};
  Recovery recovery_{run_, copying_};
  Rewiring rewiring_{run_};
  Ending ending_{run_};
  Exchanges exchanges_{run_};
  std::unique_ptr<Encounters> encounters_;
  Instant deadline_ = kNever;  // the last that next_deadline() returned
};

}  // namespace starling::gossip
