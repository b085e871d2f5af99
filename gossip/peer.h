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
#include "gossip/acceptance.h"
#include "gossip/actions.h"
#include "gossip/clocks.h"
#include "gossip/events.h"
#include "gossip/membership.h"
#include "gossip/pacing.h"
#include "gossip/partner.h"
#include "gossip/patience.h"
#include "gossip/roster.h"
#include "gossip/rounds.h"

namespace starling::gossip {

// What a peer that goes on from a checkpoint did in its earlier lives. Its steps count on from there. Its
// samples are told by this life alone: a swarm that is still there remembers the earlier lives by their own
// ids, and would count them twice. What the last of them did before it could tell anybody, the joiner tells
// in its name. Whoever begins the run anew finds nobody who remembers, and brings what the swarm had consumed
// by then.
struct EarlierLives {
  std::uint64_t steps = 0, samples = 0;  // its own
  std::uint64_t swarm_samples = 0;       // everybody's, its own included
  Duration elapsed{0};                   // since the run began
  wire::Progress last{};  // of the life that wrote the checkpoint alone; no id: it is not known
};

struct PeerOptions {
  PeerId id;
  std::string name;
  std::string http{};  // "HOST:PORT" of its page, for the others' pages; empty: none
  Address address;     // where this peer listens, as others should dial it
  std::uint64_t seed = 1;
  // Joins the swarm through whoever of these answers; empty: this peer begins the run that `manifest`
  // describes.
  std::vector<Address> join;
  // Of a joiner: if nobody has welcomed it by then, it begins the run of `manifest` itself, and goes on
  // trying to meet the others. For swarms that come back from a blackout, where nobody is left to join.
  // Whoever was locked out somewhere on the way fails instead: the swarm lives, and would have a second one
  // beside it.
  std::optional<Duration> begin_after;
  wire::Manifest manifest;        // of whoever begins; a joiner is told one
  std::vector<Address> contacts;  // where other members may be: they are tried for ever
  EarlierLives earlier{};
  MembershipOptions membership;

  Duration join_retry_min = std::chrono::milliseconds(250);  // doubled up to the maximum, with jitter
  Duration join_retry_max = std::chrono::seconds(30);
  Duration state_retry_min = std::chrono::milliseconds(200);  // pause before another donor is asked, likewise
  Duration state_retry_max = std::chrono::seconds(5);
  Duration state_stall = std::chrono::seconds(3);  // a donor without progress for so long is given up
  // An exchange of one's own with a partner that was not met yet is given up after so long without a sign of
  // progress; of others it is known what is usual (gossip/patience.h).
  Duration exchange_timeout = std::chrono::seconds(10);
  // In lock-step a neighbor that lives is waited for so long, from the round's beginning.
  Duration round_limit = std::chrono::minutes(2);
  Duration exchange_doubt = std::chrono::seconds(1);  // then its partner is probed; once suspect, given up
  Duration exchange_hold_off = std::chrono::milliseconds(20);  // after one that failed
  Duration leave_limit = std::chrono::milliseconds(1500);      // from LeaveRequested to the goodbye
  std::uint32_t answers_max = 16;  // offers served at once; more are refused as busy
  Duration recovery_limit =
      std::chrono::seconds(30);  // a lost replica without anybody to copy: then it is over
  // A replica that is lost again within so many steps of its own after a copy makes the peer wait before the
  // next (the delays of state_retry); after so many copies in a row it is over.
  std::uint64_t recovery_steps = 1000;
  std::uint32_t recoveries_max = 5;
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
  Instant next_deadline() const { return deadline_; }

  // What telemetry shows; valid until the next step.
  struct View {
    const Membership& membership;
    const ExchangeCounts& exchanges;
    std::uint64_t swarm_samples;
    Instant run_start;
    const topologies::Topology* topology;  // that it follows; null before it is prepared
    std::uint64_t round;                   // the latest that it began; 0: none
    const Patience& patience;              // with partners in exchanges
    bool diverged;  // its replica is lost and not replaced yet: nobody gets a copy of it
    bool over;
  };
  View view() const {
    return {membership_,
            exchanges_,
            membership_.swarm_samples(),
            run_start_,
            rules_ ? &rules_->topology : nullptr,
            rounds_.current(),
            patience_,
            diverged_,
            over_};
  }

  // Why a RewireRequested with this topology would come to nothing, in a sentence.
  std::optional<std::string> obstacle_to_setting(const topologies::Topology& topology) const;

  static constexpr std::uint64_t kRoundsApart =
      4;  // of two peers in an exchange, where outer steps are counted

 private:
  struct InFlight {
    std::uint64_t exchange;
    PeerId partner;
    Instant begun, deadline;
    Instant doubt;        // when its partner is probed; kNever afterwards
    Instant heard;        // the last sign of progress, or the beginning
    Duration silence{0};  // the longest between two of them
    bool advanced = false;
    bool settles = false;  // begun after training ended
    bool again = false;    // the partner refused it because this peer was behind, which then caught up
    bool asks = false;     // in lock-step, for an exchange that the partner was to begin
  };
  struct Answering {
    PeerId from;
    std::uint64_t exchange;
    friend bool operator==(const Answering&, const Answering&) = default;
  };
  struct Copy {  // of a donor's parameters
    PeerId donor;
    Instant deadline;  // put off by every chunk
    std::uint64_t chunks = 0;
    Instant window_began;  // over which the rate is taken
    std::uint64_t window_chunks = 0;
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

  void on(const Received& from, const wire::Join& join, std::vector<Action>& out);
  void on(const Received& from, const wire::Welcome& welcome, std::vector<Action>& out);
  void on(const Received& from, const wire::Refusal& refusal, std::vector<Action>& out);
  void on(const Received& from, const wire::Rewire& rewire, std::vector<Action>& out);

  void correct_topology(const Address& address, const wire::Revision& theirs, std::vector<Action>& out);
  void take_over(const wire::Rewire& rewire, std::vector<Action>& out);
  std::optional<std::string> obstacle_to(const topologies::Topology& topology) const;
  void follow_topology(std::vector<Action>& out);

  void run_timers(std::vector<Action>& out);
  void begin_run(std::vector<Action>& out);
  void send_joins(std::vector<Action>& out);
  void ask_for_state(std::vector<Action>& out);
  void drop_donor(std::vector<Action>& out);
  void watch_copy(std::vector<Action>& out);
  void start_training(std::vector<Action>& out);
  bool end_reached() const;
  void maybe_end_training(std::vector<Action>& out);
  void watch_recovery(std::vector<Action>& out);
  void recovered(std::vector<Action>& out);

  // peer_exchanging.cc
  const RuleTraits& rule() const { return traits(rules_ ? rules_->rule : Rule::none); }
  bool exchange_due() const;
  bool moment_is_due() const;
  void maybe_exchange(std::vector<Action>& out);
  void begin_exchange(PeerId partner, const Terms& terms, Instant deadline, std::vector<Action>& out);
  Terms terms_with(PeerId partner) const;
  InFlight* in_flight(std::uint64_t exchange);
  const InFlight* in_flight_with(PeerId partner) const;
  InFlight take_in_flight(std::uint64_t exchange);
  void watch_exchanges(std::vector<Action>& out);
  void abort_exchange(std::uint64_t exchange, std::vector<Action>& out);
  bool catch_up(const InFlight& refused, std::vector<Action>& out);
  void came_to_nothing(PeerId partner);
  void follow_ahead(const Rounds::Offer& offer, std::vector<Action>& out);
  std::optional<wire::RefusalReason> reason_to_refuse(const Rounds::Offer& offer);
  void accept(const Rounds::Offer& offer, std::vector<Action>& out);
  void refuse(const Rounds::Offer& offer, wire::RefusalReason reason, std::vector<Action>& out) const;
  void keep_in_step(std::vector<Action>& out);
  void open_round(std::vector<Action>& out);
  void meet_all(std::vector<Action>& out);
  void begin_along(PeerId partner, std::vector<Action>& out);
  void pass_over_the_absent(std::vector<Action>& out);
  void withdraw_asks(std::vector<Action>& out);
  void follow_links();
  void answer_held(std::vector<Action>& out);
  void close_round(std::vector<Action>& out);
  void abandon_round(std::vector<Action>& out);

  // peer_serving.cc
  bool serves() const { return roster_ && roster_->serves(); }
  void refresh_roster();
  bool trains(PeerId worker) const;
  void start_when_served(std::vector<Action>& out);
  bool push_is_due() const;
  bool parts_apart() const;
  void push(std::vector<Action>& out);
  void push_to(const Roster::Target& target, std::vector<Action>& out);
  void widen_push(std::vector<Action>& out);
  void close_push();
  void push_part_ended(const InFlight& exchange, const ExchangeEnded& ended, std::vector<Action>& out);
  void keep_staleness(std::vector<Action>& out);
  void answer_pushes_held(std::vector<Action>& out);
  void take_push(const Rounds::Offer& offer, std::vector<Action>& out);
  std::optional<wire::RefusalReason> reason_to_refuse_push(const Rounds::Offer& offer);
  Terms terms_of_serving() const;
  bool workers_reached_end() const;

  void maybe_leave(std::vector<Action>& out);
  void maybe_finish(std::vector<Action>& out);
  void finish(Finish::How how, std::string why, std::vector<Action>& out);

  wire::Phase phase() const { return membership_.self().phase; }
  Instant earliest_deadline() const;

  PeerOptions options_;
  Random random_;
  Membership membership_;
  Instant now_;
  Instant deadline_ = kNever;  // the one that was last promised
  Instant run_start_;

  // Joining.
  bool beginner_ = false;            // it has begun the run itself: there is nothing to copy
  std::vector<bool> join_hopeless_;  // per address: whoever listens there is no peer of this swarm
  Duration join_delay_;
  Instant next_join_ = kNever;              // next round of Joins, until welcomed
  Instant begin_at_ = kNever;               // when a joiner that is not welcomed begins the run itself
  std::string locked_out_;                  // why it may not: the latest sentence about a key
  std::optional<wire::Manifest> manifest_;  // once begun or welcomed
  std::optional<Copy> copy_;                // of the parameters, under way
  double best_copy_rate_ = 0;               // chunks a second, of whatever donor
  PeerId last_donor_;                       // given up: another one is asked if there is one
  Duration state_delay_;
  Instant next_state_request_ = kNever;

  // Training and exchanging.
  std::optional<RunRules> rules_;
  std::optional<PartnerChooser> partners_;
  wire::Rewire rewire_;  // the latest; number 0: the manifest's topology
  std::optional<Pacer> pacer_;
  std::vector<InFlight>
      in_flight_;  // one at most, but of a round in lock-step all of its own, and of a push all parts
  Patience patience_;
  Acceptance acceptance_;
  std::uint64_t last_exchange_ = 0;
  std::vector<Answering> answers_;  // accepted, under way
  ExchangeCounts exchanges_;

  // Rounds, where the rule has them.
  Rounds rounds_;
  Instant round_deadline_ = kNever;  // of one in lock-step: who has not come by then is passed over
  Instant round_doubt_ = kNever;     // when those it waits for are probed
  static constexpr std::uint64_t kNoVersion = UINT64_MAX;
  std::uint64_t round_version_ = kNoVersion;  // of the membership that its links were last compared with
  bool round_settles_ = false;                // it was begun after training ended
  bool round_met_anyone_ = false;

  // Servers, where the rule has them. A push's number, a worker's clock, is that of a round.
  std::optional<Roster> roster_;
  std::optional<Clocks> clocks_;    // of a server, where staleness is bounded
  bool awaits_servers_ = false;     // it trains as soon as they are there
  bool push_open_ = false;          // one is under way
  bool push_went_through_ = false;  // a part of it, at least
  std::vector<PeerId> pushed_to_;   // in it, and not in vain
  std::string told_missing_;        // what it has said that it waits for
  bool waits_for_push_ = false;     // its training is paused until the push is over
  std::uint64_t pushes_taken_ = 0;  // of a rack's server, since it pushed itself

  // Recovering from the loss of the replica.
  bool diverged_ = false;
  bool copy_afresh_ = false;  // nothing of the lost replica is to be kept
  Instant recover_by_ = kNever;
  std::uint32_t recoveries_ = 0;       // copies in a row after each of which the replica was soon lost
  std::uint64_t recovered_steps_ = 0;  // its own when the last one was in place

  // Ending.
  bool end_requested_ = false;
  std::uint64_t settling_left_ = 0;   // exchanges to be completed
  std::uint64_t settling_tries_ = 0;  // and to be tried at most
  Instant linger_until_ = kNever;
  Instant leave_by_ = kNever;  // it is leaving
  bool last_exchange_begun_ = false;
  bool over_ = false;
};

}  // namespace starling::gossip
