// What can happen to a Peer. The driver turns sockets, threads and clocks into these events.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "base/ids.h"
#include "gossip/rules.h"
#include "wire/messages.h"

namespace starling::gossip {

struct Start {};  // the first event, once

// A driver that starts all peers that begin a run together says so when they have prepared: each holds
// parameters equal to this peer's, and has made the statement that is here, which it signed.
struct Assembled {
  std::span<const wire::Member> members;  // sorted by id, this peer included; valid during the step
};

// A verified control message. The sender's handshake named this swarm and proved that it has the key of its
// id.
struct Received {
  PeerId from;
  Address address;  // where the sender listens, as this peer would dial it; empty: it does not listen
  wire::Message message;
};

struct Unreachable {  // sends to this address fail: refused, broken, timed out
  Address address;
  bool final = false;          // no peer of this swarm listens there, and none will
  std::string why;             // one sentence
  bool locked_out = false;     // a peer listens there, but one of the two lacks the swarm's key
  PeerId id{};                 // that the message was for, as in Send; only this one is unreachable
  bool was_reached = false;    // a peer of this swarm answered there before. Only told of addresses to join
  bool other_version = false;  // a peer listens there whose protocol has another version
};

struct DialTried {  // TryDial is done
  PeerId peer;
  std::uint64_t sequence = 0;
  bool reached = false;
};

struct Prepared {  // Prepare is done: the model is built, the data is loaded
  RunRules rules;
  std::string device{};  // for training
};
struct PrepareFailed {
  std::string why;
};

// Progress of FetchState: at least once for every sixteenth of the arena, and each second after the last one.
struct StateAdvanced {
  std::uint64_t chunks = 0;  // in place now, from any donor
  std::uint64_t total = 0;
};
struct StateArrived {};  // FetchState is done: every chunk is in place
struct StateLost {       // FetchState failed: the donor is gone, refuses, or sent unusable values
  std::string why;
  bool unusable = false;  // it sent values that a replica must not take, or too many or too few
};

struct Stepped {  // the workers' totals since the peer started, plus PeerOptions::earlier
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
};

struct VitalsMeasured {          // from time to time; published to others, for people to see
  wire::Vitals vitals;           // the core sets its id and sequence
  std::optional<double> loss{};  // of recent own steps, in nats; unset: unknown, or another program's
};

// How an exchange ended.
enum class Outcome : std::uint8_t {
  completed,
  aborted,   // the connection broke, or the partner broke the protocol
  rejected,  // the partner did not take part
  poisoned,  // the partner sent values that a replica must not take
};
struct ExchangeEnded {  // one that this peer began
  std::uint64_t exchange = 0;
  Outcome outcome = Outcome::completed;
  std::uint64_t round = 0;   // if rejected: from the ExchangeRefusal
  bool quarantined = false;  // if rejected: because of what this peer sent before
};
struct ExchangeAdvanced {  // progress of one that this peer began; at least once for every sixteenth of the
                           // arena
  std::uint64_t exchange = 0;
  std::uint64_t cells = 0;  // answered so far
};
struct ExchangeOffered {  // another peer begins one with this peer
  PeerId from;
  std::uint64_t exchange = 0;
  std::uint64_t round = 0;  // the other peer's, where the rule counts rounds
};
// An accepted offer was answered to the end or broke off, or a held offer was withdrawn (aborted). Never
// rejected.
struct AnswerEnded {
  PeerId from;
  std::uint64_t exchange = 0;
  Outcome outcome = Outcome::completed;
};

// This peer's own replica holds values that must not be sent: NaN, infinity, or beyond 2^60. Reported each
// time that one is found.
struct ReplicaDiverged {
  std::string where{};  // a clause that names a tensor and its values, if known
};

// The device that holds the replica has failed, and nothing is left to exchange. The peer says goodbye at
// once.
struct ReplicaGone {
  std::string why;  // a sentence
};

struct EndRequested {};    // end the run here: settle, finish
struct LeaveRequested {};  // one last exchange within PeerOptions::leave_limit, then goodbye
struct Introduced {        // a member of this swarm may listen at this address
  Address address;
};
struct RewireRequested {  // a user wants the whole swarm to follow this topology. REQUIRES: it parses
  std::string topology;
};
struct Tick {};  // next_deadline() has come

using Event = std::variant<Start, Received, Unreachable, DialTried, Prepared, PrepareFailed, StateAdvanced,
                           StateArrived, StateLost, Stepped, ExchangeAdvanced, ExchangeEnded, ExchangeOffered,
                           AnswerEnded, ReplicaDiverged, ReplicaGone, EndRequested, LeaveRequested,
                           Introduced, RewireRequested, Tick, VitalsMeasured, Assembled>;

}  // namespace starling::gossip
