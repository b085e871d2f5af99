// What can happen to a Peer. The driver turns sockets, threads and clocks into these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/ids.h"
#include "base/time.h"
#include "topologies/topology.h"
#include "wire/messages.h"

namespace starling::gossip {

enum class Rule : std::uint8_t { none, pairwise };

// When a peer begins an exchange of its own.
struct Pace {
  enum class Kind : std::uint8_t { steps, time, always };
  Kind kind = Kind::steps;
  std::uint64_t steps = 8;  // of its own, since the last one was due
  Duration time{0};
};

// When a run ends for a peer: the first of these that is reached; with none it runs until it is told to end.
struct End {
  std::optional<std::uint64_t>
      swarm_samples;                   // consumed by all peers that ever took part, as far as this one knows
  std::optional<std::uint64_t> steps;  // of its own
  std::optional<Duration> time;        // since the run began
};

// What the core needs to know of a run; the driver reads it out of the manifest.
struct RunRules {
  topologies::Topology topology;
  Rule rule = Rule::pairwise;
  Pace pace;
  End end;
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
};

struct Prepared {  // Prepare is done: model built, data loaded
  RunRules rules;
};
struct PrepareFailed {
  std::string why;
};

struct StateArrived {};  // FetchState is done: the arena is a copy of the donor's
struct StateLost {       // FetchState failed: the donor is gone, slow, or sent what is unusable
  std::string why;
};

struct Stepped {  // the workers' totals since the peer started
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
};

enum class Outcome : std::uint8_t { completed, aborted, rejected };
struct ExchangeEnded {  // one that this peer began
  std::uint64_t exchange = 0;
  Outcome outcome = Outcome::completed;
};
struct ExchangeOffered {  // another peer begins one with us
  PeerId from;
  std::uint64_t exchange = 0;
};
struct AnswerEnded {  // an offer that was accepted has been served, or broke off
  PeerId from;
  std::uint64_t exchange = 0;
  bool completed = true;  // every chunk was answered
};

struct EndRequested {};    // end the run here: settle, finish
struct LeaveRequested {};  // leave at once
struct Tick {};            // next_deadline() has come

using Event =
    std::variant<Start, Received, Unreachable, Prepared, PrepareFailed, StateArrived, StateLost, Stepped,
                 ExchangeEnded, ExchangeOffered, AnswerEnded, EndRequested, LeaveRequested, Tick>;

}  // namespace starling::gossip
