// What a Peer wants done. Actions name work and never carry it: the driver moves the bytes and runs the
// kernels, and reports back with the event named here (->).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "gossip/rules.h"
#include "wire/messages.h"

namespace starling::gossip {

struct Send {  // a control message; if it is lost -> Unreachable
  Endpoint to;
  wire::Message message;
};

// Try to make a new connection to this peer, and close it again -> DialTried
struct TryDial {
  Endpoint to;
  std::uint64_t sequence = 0;
};
// Dial this peer, which cannot dial this one, and serve what comes as if it had. No event follows.
struct AnswerCall {
  Endpoint to;
  wire::Purpose purpose = wire::Purpose::bulk;  // or relay: `to` connects this peer with the caller
  std::uint64_t number = 0;                     // Hello::call
};

struct Prepare {  // build the model, load the data -> Prepared | PrepareFailed
  wire::Manifest manifest;
};

// Copy the donor's parameters, chunk by chunk, from the first chunk that is not in place yet
// -> StateAdvanced ..., then StateArrived | StateLost
struct FetchState {
  Endpoint donor;
  bool afresh = false;  // nothing is in place any more: from the first chunk of all
};
struct AbortFetch {};  // stop copying and keep what is in place; no StateLost for it

// In a run that ends by samples: a step may begin while those that are done, as Stepped counts them, and
// those under way have fewer samples than this. Before StartTraining, and then each time that it changes.
// UINT64_MAX: no limit any more.
struct AllowSamples {
  std::uint64_t samples = UINT64_MAX;
};

// Training has to wait for others (JointStart), but the replica is to be in place: they copy it.
struct HoldTraining {};

// Once: the replica is in place. -> Stepped after every step (several may be reported as one)
struct StartTraining {
  bool steps = true;  // false: this peer serves others' steps and makes none
};
struct StopTraining {};  // begin no further step; a step under way is discarded. Mixer::settle

// No further step begins until ResumeTraining. A step under way lands unless it is to be discarded.
struct PauseTraining {
  bool discard = false;  // the replica is lost, and workers' updates with it
};
struct ResumeTraining {
  bool renewed = false;  // the replica is a fresh copy: optimizer state and mixer start again (Mixer::adopt)
};

// How an exchange is to be mixed: what the core decides for the data plane.
struct Terms {
  std::uint64_t round = 0;  // the initiator's, where the rule counts rounds
  float weight = 0.5F;      // the most that either side mixes in of the other
  float own_share = 1;      // in (0, 1]: factor on how far this side moves
  Part part{};              // the part of the arena that is exchanged
  bool returns = true;      // the partner may also begin exchanges with this peer
  bool newcomer = false;    // the partner counts as one with all others that have come lately
  friend bool operator==(const Terms&, const Terms&) = default;
};

struct BeginRound {  // Mixer::begin_round. Numbers grow; a peer that was left behind skips some
  std::uint64_t round = 0;
};
struct BeginExchange {  // -> ExchangeAdvanced ..., ExchangeEnded
  std::uint64_t exchange = 0;
  Endpoint partner;
  Terms terms{};
};
struct AbortExchange {  // one that was begun; no ExchangeEnded for it
  std::uint64_t exchange = 0;
};
// The answer to an ExchangeOffered: at once or, in lock-step, when this peer reaches the round; what the
// initiator sends before waits. If accepted -> AnswerEnded. If the offer is withdrawn while it waits ->
// AnswerEnded too.
struct AnswerOffer {
  PeerId from;
  std::uint64_t exchange = 0;
  bool accept = false;
  wire::RefusalReason reason = wire::RefusalReason::busy;  // if not accepted
  Terms terms{};  // if accepted; otherwise only the round counts, for ExchangeRefusal
};

struct TrainingEnded {
};  // the last step is made and settling begins: the moment for a "before settling" copy

// The last action: flush what was sent, then stop.
struct Finish {
  enum class How : std::uint8_t { finished, left, failed };
  How how = How::finished;
  std::string why;             // a sentence; if finished: why the end is in doubt, or empty
  bool other_version = false;  // failed because this program and the swarm's are too far apart
};

// The swarm follows this topology from now on: show it, and keep it for a restart.
struct Rewired {
  std::string topology;
};

struct TrustReplica {};  // its loss is good: Mixer::trust

// For logs and traces only.
struct Notice {
  enum class What : std::uint8_t {
    joined,
    suspected,
    recovered,
    failed,
    left,
    quarantined,  // no exchange with it for a while: it sent values that a replica must not take, several
                  // times
    refuted,      // others considered this peer suspect or failed
    waiting,
    unwired,      // the swarm follows a topology that this program cannot follow; it keeps its own
    diverged,     // this peer's own replica is lost, for the reason in `text`; it is replaced by a copy
    incredible,   // a member claims more samples than it can have consumed; they do not count
    conflict,     // two live members advertise the same address
    reachable,    // others can dial this peer, at the address in `text`
    hidden,       // others cannot dial this peer
    passed_over,  // a member did not answer for too long: rounds do not wait for it for a while
    contested,    // a member has the name of a parameter server that another live one holds
    leads,        // a member brings more than half of the samples since it came, much faster than others
    unsettled,    // settling ended before this number of exchanges, in `text`, had completed
    assembling,   // so many peers that begin together are there, in `text`
    incomplete,   // training begins with fewer of them, in `text`
    unfit,        // a joiner cannot take part in the run, for the reason in `text`
  };
  What what = What::joined;
  PeerId peer;       // 0 for waiting, unwired and diverged
  std::string text;  // name and address; for waiting: what for; for unwired: why
};

using Action =
    std::variant<Send, TryDial, AnswerCall, Prepare, FetchState, AbortFetch, StartTraining, StopTraining,
                 PauseTraining, ResumeTraining, BeginRound, BeginExchange, AbortExchange, AnswerOffer,
                 TrainingEnded, Rewired, Finish, Notice, AllowSamples, TrustReplica, HoldTraining>;
using Actions = std::vector<Action>;

}  // namespace starling::gossip
