// The pure core of a Starling peer: a state machine without I/O, clock, threads or log. The daemon (node) and
// the simulator (lab) are its two drivers. A driver's duties, in this order:
//
//   std::vector<gossip::Action> actions;
//   peer.step(now, gossip::Start{}, actions);
//   for (;;) {
//     carry out `actions` in order, then clear them;      // a Finish is the last one ever
//     wait for an event, or until peer.next_deadline();
//     peer.step(now, event, actions);                     // Tick{} when the deadline came; `now` never runs
//     backwards
//   }
//
// A peer's life: it begins a run or joins one (Join -> Welcome), prepares (model, data), copies the
// parameters of a member unless it begins, then trains and exchanges; at the run's end it settles (a few more
// exchanges without training), is finished, answers its neighbors until they have settled too, and stops. It
// may leave at any time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "gossip/actions.h"
#include "gossip/events.h"
#include "gossip/membership.h"
#include "gossip/pacing.h"
#include "gossip/partner.h"

namespace starling::gossip {

struct PeerOptions {
  PeerId id;
  std::string name;
  Address address;  // where this peer listens, as others should dial it
  std::uint64_t seed = 1;
  // Joins the swarm through whoever of these answers; empty: this peer begins the run that `manifest`
  // describes.
  std::vector<Address> join;
  // Of a joiner: if nobody has welcomed it by then, it begins the run of `manifest` itself, and goes on trying
  // to meet the others. For swarms that come back from a blackout, where nobody is left to join.
  std::optional<Duration> begin_after;
  wire::Manifest manifest;        // of whoever begins; a joiner is told one
  std::vector<Address> contacts;  // where other members may be: they are tried for ever
  MembershipOptions membership;

  Duration join_retry_min = std::chrono::milliseconds(250);  // doubled up to the maximum, with jitter
  Duration join_retry_max = std::chrono::seconds(30);
  Duration state_retry = std::chrono::milliseconds(200);       // pause before another donor is asked
  Duration exchange_timeout = std::chrono::seconds(10);        // then an exchange of one's own is given up
  Duration exchange_hold_off = std::chrono::milliseconds(20);  // after one that failed
  Duration state_stall = std::chrono::seconds(3);  // a donor without progress for so long is given up
  Duration leave_limit = std::chrono::milliseconds(1500);  // from LeaveRequested to the goodbye
  std::uint32_t answers_max = 16;              // offers served at once; more are refused as busy
  Duration linger = std::chrono::seconds(10);  // a finished peer answers at most this long those who are not
};

struct ExchangeCounts {
  std::uint64_t begun = 0, completed = 0, aborted = 0, rejected = 0;  // this peer's own
  std::uint64_t answered = 0;  // offers of others that were served to the end
};

class Peer {
 public:
  explicit Peer(PeerOptions options);

  // Appends what should be done to `out`. REQUIRES: the first event is Start; nothing follows a Finish.
  void step(Instant now, const Event& event, std::vector<Action>& out);
  // When to step with a Tick at the latest; always later than the last `now`.
  Instant next_deadline() const;

  // What telemetry shows; valid until the next step.
  struct View {
    const Membership& membership;
    const ExchangeCounts& exchanges;
    std::uint64_t swarm_samples;
    bool over;
  };
  View view() const { return {membership_, exchanges_, membership_.swarm_samples(), over_}; }

 private:
  struct InFlight {
    std::uint64_t exchange;
    PeerId partner;
    Instant deadline;
  };

  void handle(const Start&, std::vector<Action>& out);
  void handle(const Received&, std::vector<Action>& out);
  void handle(const Unreachable&, std::vector<Action>& out);
  void handle(const Prepared&, std::vector<Action>& out);
  void handle(const PrepareFailed&, std::vector<Action>& out);
  void handle(const StateAdvanced&, std::vector<Action>& out);
  void handle(const StateArrived&, std::vector<Action>& out);
  void handle(const StateLost&, std::vector<Action>& out);
  void handle(const Stepped&, std::vector<Action>& out);
  void handle(const ExchangeEnded&, std::vector<Action>& out);
  void handle(const ExchangeOffered&, std::vector<Action>& out);
  void handle(const AnswerEnded&, std::vector<Action>& out);
  void handle(const EndRequested&, std::vector<Action>& out);
  void handle(const LeaveRequested&, std::vector<Action>& out);
  void handle(const Introduced&, std::vector<Action>& out);
  void handle(const Tick&, std::vector<Action>& out);

  void on(const Received& from, const wire::Join& join, std::vector<Action>& out);
  void on(const Received& from, const wire::Welcome& welcome, std::vector<Action>& out);
  void on(const Received& from, const wire::Refusal& refusal, std::vector<Action>& out);

  void run_timers(std::vector<Action>& out);
  void send_joins(std::vector<Action>& out);
  void ask_for_state(std::vector<Action>& out);
  void start_training(std::vector<Action>& out);
  bool end_reached() const;
  void maybe_end_training(std::vector<Action>& out);
  void maybe_exchange(std::vector<Action>& out);
  void maybe_finish(std::vector<Action>& out);
  void finish(Finish::How how, std::string why, std::vector<Action>& out);

  wire::Phase phase() const { return membership_.self().phase; }
  bool begins() const { return options_.join.empty(); }

  PeerOptions options_;
  Random random_;
  Membership membership_;
  Instant now_;
  Instant run_start_;

  // Joining.
  std::vector<bool> join_hopeless_;  // per address: whoever listens there is no peer of this swarm
  Duration join_delay_;
  Instant next_join_ = kNever;              // next round of Joins, until welcomed
  std::optional<wire::Manifest> manifest_;  // once begun or welcomed
  std::optional<PeerId> donor_;             // whom the parameters are being copied from
  Instant next_state_request_ = kNever;
  bool prepared_ = false;

  // Training and exchanging.
  std::optional<RunRules> rules_;
  std::optional<PartnerChooser> partners_;
  std::optional<Pacer> pacer_;
  std::optional<InFlight> in_flight_;
  std::uint64_t last_exchange_ = 0;
  std::uint32_t answers_ = 0;
  ExchangeCounts exchanges_;

  // Ending.
  bool end_requested_ = false;
  std::uint64_t settling_left_ = 0;
  Instant linger_until_ = kNever;
  bool over_ = false;
};

}  // namespace starling::gossip
