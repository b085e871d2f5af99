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
//   Health       whether the own replica has become useless
//   Recovery     what to do when the own replica is lost
//   JointStart      when training begins
//   Rewiring     the topology, which may change during the run
//   Encounters   when, with whom and on what terms to exchange; one class for each kind of rule
//   Exchanges    those in flight, and those answered
//   Ending       the run's end, settling, leaving
//   Allowance    how many samples to take before the others' counts are known
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "gossip/allowance.h"
#include "gossip/copying.h"
#include "gossip/health.h"
#include "gossip/joining.h"
#include "gossip/joint_start.h"
#include "gossip/meeting/encounters.h"
#include "gossip/rewiring.h"
#include "gossip/run_state.h"

namespace starling::gossip {

class Peer {
 public:
  explicit Peer(PeerOptions options);
  Peer(Peer&&) = delete;  // its parts refer to one another

  // Appends what should be done to `out`. REQUIRES: the first event is Start; nothing follows a Finish.
  void step(Instant now, const Event& event, Actions& out);
  // When to step with a Tick at the latest; always later than the last `now`.
  Instant next_deadline() const { return deadline_; }

  // For telemetry; valid until the next step.
  struct View {
    const Membership& membership;
    const ExchangeCounts& exchanges;
    std::uint64_t swarm_samples;
    std::uint64_t samples_before;  // that the swarm counts for earlier lives of this id
    Instant run_start;
    const topologies::Topology* topology;  // null before the peer is prepared
    std::uint64_t round;                   // the latest that it began; 0: none
    const Patience& patience;              // with partners in exchanges
    bool diverged;                         // its replica is lost and not replaced yet: nobody may copy it
    bool over;
    std::optional<JointStart::Awaited> awaited;  // its training waits for other peers
  };
  View view() const;

  // Why a RewireRequested with this topology would be rejected, in a sentence; nullopt if it would not.
  std::optional<std::string> obstacle_to_setting(const topologies::Topology& topology) const {
    return rewiring_.obstacle_to_setting(topology);
  }

 private:
  template <class Call>
  decltype(auto) meet(Call call) {
    return std::visit(call, encounters_);
  }

  void handle(const Start&, Actions& out);
  void handle(const Assembled& assembled, Actions& out) {
    run_.membership.assembled(run_.now, assembled.members, out);
  }
  void handle(const Received& received, Actions& out) {
    std::visit([&](const auto& message) { take(received, message, out); }, received.message);
  }
  void handle(const Unreachable& unreachable, Actions& out) {
    run_.membership.unreachable(run_.now, {unreachable.id, unreachable.address}, out);
    joining_.unreachable(unreachable, out);
  }
  void handle(const DialTried& tried, Actions& out) { run_.membership.reach().tried(tried, out); }
  void handle(const Prepared& prepared, Actions& out);
  void handle(const PrepareFailed& failed, Actions& out);
  void handle(const StateAdvanced& advanced, Actions& out) { copying_.advanced(advanced, out); }
  void handle(const StateArrived&, Actions& out);
  void handle(const StateLost& lost, Actions& out) { copying_.lost(lost, out); }
  void handle(const Stepped& stepped, Actions&) {
    const std::uint64_t earlier = run_.options.earlier.samples;
    const std::uint64_t samples = stepped.samples - std::min(stepped.samples, earlier);
    run_.membership.set_progress(run_.now, stepped.steps, add_saturated(run_.samples_before, samples));
  }
  void handle(const VitalsMeasured& measured, Actions& out);
  void handle(const ExchangeAdvanced& advanced, Actions&) {
    meet([&](auto& it) { it.advanced(advanced); });
  }
  void handle(const ExchangeEnded& ended, Actions& out);
  void handle(const ExchangeOffered& offered, Actions& out) {
    meet([&](auto& it) { it.offered({offered.from, offered.exchange, offered.round}, out); });
  }
  void handle(const AnswerEnded& ended, Actions& out) {
    meet([&](auto& it) { it.answer_ended(ended, out); });
  }
  void handle(const ReplicaDiverged& diverged, Actions& out) {
    const std::string where = diverged.where.empty() ? "" : " (" + diverged.where + ")";
    if (run_.phase() != wire::Phase::joining)
      lose_replica(false, "this peer's own parameters are not finite, or beyond 2^60" + where, out);
  }
  void handle(const ReplicaGone& gone, Actions& out);
  void handle(const EndRequested&, Actions& out) {
    ending_.request();
    if (run_.phase() == wire::Phase::joining)
      handle(LeaveRequested{}, out);  // there is nothing to settle yet
  }
  void handle(const LeaveRequested&, Actions& out);
  void handle(const Introduced& introduced, Actions& out) {
    run_.membership.add_contact(introduced.address);
    run_.membership.sync_with({{}, introduced.address}, out);
  }
  void handle(const RewireRequested& requested, Actions& out) {
    if (rewiring_.requested(requested, out)) meet([](auto& it) { it.topology_changed(); });
  }
  void handle(const Tick&, Actions&) {}

  void take(const Received& from, const wire::Join& join, Actions& out) {
    if (joining_.answer(from, join, out))
      rewiring_.correct(run_.membership.view().reply_to(from.from, from.address), {}, out);
  }
  void take(const Received& from, const wire::Welcome& welcome, Actions& out) {
    joining_.welcomed(from, welcome, out);
  }
  void take(const Received& from, const wire::Refusal& refusal, Actions& out) {
    if (refusal.reason != wire::RefusalReason::address_taken) return joining_.refused(from, refusal, out);
    run_.membership.heard(run_.now, from.from, from.address, out);
    run_.membership.address_taken(run_.now, from.from, out);
  }
  void take(const Received& from, const wire::Rewire& rewire, Actions& out) {
    if (rewiring_.received(from, rewire, out)) meet([](auto& it) { it.topology_changed(); });
  }
  void take(const Received& from, const wire::ReachRequest& request, Actions& out) {
    run_.membership.heard(run_.now, from.from, from.address, out);
    run_.membership.reach().on(run_.now, from.from, from.address, request, out);
  }
  template <class Message>
  requires std::same_as<Message, wire::Call> || std::same_as<Message, wire::ReachReport>
  void take(const Received& from, const Message& message, Actions& out) {
    run_.membership.heard(run_.now, from.from, from.address, out);
    run_.membership.reach().on(run_.now, from.from, message, out);
  }
  void take(const Received& from, const wire::Gossip& gossip, Actions& out) {
    run_.membership.on(run_.now, from.from, from.address, gossip, out);
    allowance_.heard(from.from);
  }
  // Other messages of the membership. All others are for drivers.
  template <class Message>
  void take(const Received& from, const Message& message, Actions& out) {
    if constexpr (requires { run_.membership.on(run_.now, from.from, from.address, message, out); })
      run_.membership.on(run_.now, from.from, from.address, message, out);
    if constexpr (requires { message.topology; })
      rewiring_.correct(run_.membership.view().reply_to(from.from, from.address), message.topology, out);
  }

  void lose_replica(bool finite, const std::string& why, Actions& out);
  void check_health(Actions& out);
  void run_timers(Actions& out);
  void start_training(Actions& out);
  void maybe_end_training(Actions& out);
  void maybe_finish(Actions& out);
  void maybe_leave(Actions& out);
  Instant earliest_deadline() const;

  RunState run_;
  Joining joining_{run_};
  Copying copying_{run_};
  Health health_;
  Recovery recovery_{run_, copying_};
  JointStart joint_start_{run_};
  Rewiring rewiring_{run_};
  Ending ending_{run_};
  Allowance allowance_{run_};
  Exchanges exchanges_{run_};
  std::variant<NoEncounters, Whenever, LockStep, Served> encounters_;
  Instant deadline_ = kNever;  // the last that next_deadline() returned
};

}  // namespace starling::gossip
