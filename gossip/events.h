// What can happen to a Peer. The driver turns sockets, threads and clocks into these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/ids.h"
#include "base/time.h"
#include "gossip/rule.h"
#include "gossip/servers.h"
#include "topologies/topology.h"
#include "wire/messages.h"

namespace starling::gossip {

// When a peer begins an exchange of its own.
struct Pace {
  enum class Kind : std::uint8_t {
    steps,    // after so many steps of its own
    time,     // so long after the last
    poisson,  // at random moments, so far apart in the mean: the clock of asynchronous gossip in the literature
    always,
  };
  Kind kind = Kind::steps;
  std::uint64_t steps = 8;
  Duration time{0};
};

// When a run ends for a peer: the first of these that is reached; with none it runs until it is told to end.
struct End {
  std::optional<std::uint64_t>
      swarm_samples;                   // consumed by all peers that ever took part, as far as this one knows
  std::optional<std::uint64_t> steps;  // of its own
  std::optional<Duration> time;        // since the run began
};

// How one of the neighbors is chosen for an exchange.
enum class Partners : std::uint8_t {
  uniform,  // at random, each equally often, or as often as the topology's weights say
  turns,    // one after the other; of a topology that varies in time, round after round
  aware,    // quick ones, and those that have learned since the last meeting, more often
};

// How much a side of an exchange moves, compared with the partner.
enum class Shares : std::uint8_t {
  equal,  // as much
  work,   // less, the fewer samples the partner has consumed
  age,    // less, the longer the partner's samples have stood still
};

// What the core needs to know of a run; the driver reads it out of the manifest.
struct RunRules {
  topologies::Topology topology;
  Rule rule = Rule::pairwise;
  Pace pace;
  End end;
  Partners partners = Partners::uniform;
  Shares shares = Shares::equal;
  Servers servers{};
};

// ---- events ----

struct Start {};  // the first event, once

struct Received {  // a verified control message, from a peer whose handshake named this swarm
  PeerId from;
  Address address;  // where the sender listens
  wire::Message message;
};

struct Unreachable {  // nothing sent there arrives: refused, broken, timed out
  Address address;
  bool final = false;  // whoever listens there is no peer of this swarm and will not become one
  std::string why;     // one sentence
  bool locked_out = false;  // a peer lives there, and the swarm's key, which one of the two lacks, is between them
};

struct Prepared {  // Prepare is done: model built, data loaded
  RunRules rules;
  std::string device{};  // that it will train on
};
struct PrepareFailed {
  std::string why;
};

struct StateAdvanced {       // FetchState goes on; told at least once for every sixteenth of the arena
  std::uint64_t chunks = 0;  // in place now, of whatever donor
  std::uint64_t total = 0;
};
struct StateArrived {};  // FetchState is done: every chunk is in place
struct StateLost {       // FetchState failed: the donor is gone, refuses, or sent what is unusable
  std::string why;
  bool poisoned = false;  // it sent what may not touch a replica
};

struct Stepped {  // the workers' totals since the peer started, those of PeerOptions::earlier included
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
};

struct VitalsMeasured {  // now and then; what others are told of this peer, for people to see
  wire::Vitals vitals;   // its id and sequence are the core's
};

enum class Outcome : std::uint8_t {
  completed,
  aborted,   // the connection broke, or the partner broke the rules of an exchange
  rejected,  // the partner would not take part
  poisoned,  // the partner sent values that may not touch a replica
};
struct ExchangeEnded {  // one that this peer began
  std::uint64_t exchange = 0;
  Outcome outcome = Outcome::completed;
  std::uint64_t round = 0;  // where rejected: what the ExchangeRefusal said
};
struct ExchangeAdvanced {      // one that this peer began goes on; told at least once for every sixteenth of the arena
  std::uint64_t exchange = 0;
  std::uint64_t cells = 0;  // answered so far
};
struct ExchangeOffered {  // another peer begins one with us
  PeerId from;
  std::uint64_t exchange = 0;
  std::uint64_t round = 0;  // the other's, where the rule counts rounds
};
struct AnswerEnded {  // an offer that was accepted has been served or broke off, or one that waited was withdrawn
  PeerId from;
  std::uint64_t exchange = 0;
  bool completed = true;  // every chunk was answered
  bool poisoned = false;  // it broke off because a chunk's values may not touch a replica
};

// This peer's own replica holds values that may not travel: NaN, infinity, or beyond 2^60. Found by whoever
// lends, answers or gives a copy; said again as often as it is found.
struct ReplicaDiverged {};

// The device that holds this peer's replica does nothing any more: there is nothing left to exchange. Goodbye,
// at once.
struct ReplicaGone {
  std::string why;  // a sentence
};

struct EndRequested {};    // end the run here: settle, finish
struct LeaveRequested {};  // leave: one last exchange, within PeerOptions::leave_limit, then goodbye
struct Introduced {        // somebody may listen there: a member of this swarm that is to be met
  Address address;
};
struct RewireRequested {  // a user wants the whole swarm to follow this topology. REQUIRES: it parses
  std::string topology;
};
struct Tick {};  // next_deadline() has come

using Event = std::variant<Start, Received, Unreachable, Prepared, PrepareFailed, StateAdvanced, StateArrived,
                           StateLost, Stepped, ExchangeAdvanced, ExchangeEnded, ExchangeOffered, AnswerEnded,
                           ReplicaDiverged, ReplicaGone, EndRequested, LeaveRequested, Introduced, RewireRequested, Tick,
                           VitalsMeasured>;

}  // namespace starling::gossip
