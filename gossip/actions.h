// What a Peer wants done. Actions name work and never carry it: the driver moves the bytes and runs the
// kernels, and reports back with an event where one is named here.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/ids.h"
#include "gossip/servers.h"
#include "wire/messages.h"

namespace starling::gossip {

struct Send {  // a control message; may be lost, then Unreachable
  Address to;
  wire::Message message;
};

struct Prepare {  // build the model, load the data -> Prepared | PrepareFailed
  wire::Manifest manifest;
};

// Copy the donor's parameters, chunk by chunk, from the first chunk that is not in place yet
// -> StateAdvanced ..., then StateArrived | StateLost
struct FetchState {
  PeerId donor;
  Address address;
  bool afresh = false;  // nothing is in place any more: from the very first chunk
};
struct AbortFetch {};  // give this donor up; what is in place stays. Its StateLost is no longer wanted

// Once: the replica is in place. -> Stepped after every step (several may be reported as one)
struct StartTraining {
  bool steps = true;  // false: this peer serves the steps of others, and makes none
};
struct StopTraining {};   // begin no further step; a step under way is thrown away

// Until ResumeTraining no further step begins. A step under way lands, or is thrown away (`discard`: the replica
// is lost, its workers' updates with it).
struct PauseTraining {
  bool discard = false;
};
struct ResumeTraining {
  bool renewed = false;  // the replica is a fresh copy: optimizer state and mixer begin anew (Mixer::adopt)
};

// How an exchange is to be mixed: what the core decides for the data plane.
struct Terms {
  std::uint64_t round = 0;   // of the initiator, where the rule counts rounds
  float weight = 0.5F;       // the most that either side mixes of the other
  float own_share = 1;       // in (0, 1]: by which this side moves less than it would
  Part part{};               // of the arena, which alone is exchanged
  friend bool operator==(const Terms&, const Terms&) = default;
};

struct BeginRound {  // Mixer::begin_round. Rounds grow; one that was left behind skips some
  std::uint64_t round = 0;
};
struct BeginExchange {  // with this partner -> ExchangeAdvanced ..., ExchangeEnded
  std::uint64_t exchange = 0;
  PeerId partner;
  Address address;
  Terms terms{};
};
struct AbortExchange {  // give up one that was begun; its ExchangeEnded is no longer wanted
  std::uint64_t exchange = 0;
};
// To an ExchangeOffered, at once or, in lock-step rounds, when this peer gets there: what the initiator sends
// meanwhile waits. Accepted -> AnswerEnded. An offer that is withdrawn while it waits -> AnswerEnded too.
struct AnswerOffer {
  PeerId from;
  std::uint64_t exchange = 0;
  bool accept = false;
  wire::RefusalReason reason = wire::RefusalReason::busy;  // where not accepted
  Terms terms{};  // where accepted; of a refusal the round alone, for ExchangeRefusal
};

struct TrainingEnded {};  // the last step is made, settling begins: the moment for a copy «before settling»

// The last action: flush what was sent, then stop. `why` is one sentence where how == failed.
struct Finish {
  enum class How : std::uint8_t { finished, left, failed };
  How how = How::finished;
  std::string why;
};

// The swarm follows this topology from now on: to be shown, and kept for a restart.
struct Rewired {
  std::string topology;
};

// For logs and traces only.
struct Notice {
  enum class What : std::uint8_t {
    joined,
    suspected,
    recovered,
    failed,
    left,
    quarantined,  // no exchange with it for a while: it sent what may not touch a replica, several times
    refuted,      // this peer itself was said to be suspect or failed
    waiting,
    unwired,  // the swarm follows a topology that this program does not know; it stays with its own
    diverged,  // this peer's own replica held values that are not finite: it is given up for a copy
  };
  What what = What::joined;
  PeerId peer;       // 0 for waiting, unwired and diverged
  std::string text;  // name and address; of waiting: for what; of unwired: why
};

using Action = std::variant<Send, Prepare, FetchState, AbortFetch, StartTraining, StopTraining, PauseTraining,
                            ResumeTraining, BeginRound, BeginExchange, AbortExchange, AnswerOffer, TrainingEnded,
                            Rewired, Finish, Notice>;

}  // namespace starling::gossip
