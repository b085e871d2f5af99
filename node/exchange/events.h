// What an Exchanger tells, is told once, and counts.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/time.h"
#include "gossip/events.h"
#include "training/records/staleness.h"

namespace starling::node {

struct ExchangerEvents {
  // `round`: of the partner, where it refused and the rule counts rounds.
  std::function<void(std::uint64_t exchange, gossip::Outcome, std::uint64_t round)> on_ended;
  // One of its own goes on: told at least once for every sixteenth of the arena.
  std::function<void(std::uint64_t exchange, std::uint64_t cells)> on_advanced;
  // Asks the core; its answer comes back through answer(), at once or later.
  std::function<void(PeerId from, std::uint64_t exchange, std::uint64_t round)> on_offered;
  std::function<void(PeerId from, std::uint64_t exchange, bool completed, bool poisoned)> on_answer_ended;
  // After every chunk of a first copy: how many are in place, whoever they came from.
  std::function<void(std::uint64_t chunks, std::uint64_t total)> on_state_advanced;
  std::function<void()> on_state_arrived;
  std::function<void(std::string why, bool poisoned)> on_state_lost;
  // Values of this peer's own were found that may not travel; told as often as they are found.
  std::function<void()> on_diverged;
  // The steps that have landed in the replica so far; without it staleness is not counted.
  std::function<std::uint64_t()> steps{};
};

struct ExchangerOptions {
  // How much is on its way at once on one connection, in one direction; where unset it adapts to the partner's
  // link (flow.h).
  std::optional<std::size_t> chunk_cells;  // cells in a chunk
  std::optional<std::size_t> window;       // chunks sent and not yet answered
  // A connection is closed after so long without progress in answering, giving or fetching. An exchange of this
  // peer's own has no such limit: a partner may hold its offer, and it is the core that gives up (abort()).
  Duration stall = std::chrono::seconds(15);
  // A connection that this peer dialled is closed after so long without an exchange, one that it accepted
  // after twice that: then the dialler is gone without a word.
  Duration idle_limit = std::chrono::seconds(30);
  std::size_t idle_max = 8;       // connections that it dialled, kept for the next exchange
  std::size_t servers_max = 64;   // inbound connections kept; the oldest idle one goes first
  std::size_t donations_max = 8;  // joiners that copy at once; others are told to ask another peer
  std::size_t partners_max = 256;  // whose links' speed is remembered
  std::size_t rooms_bytes_max = std::size_t{8} << 20;  // kept for the next chunks
};

struct ExchangerCounters {
  // Sent and not answered when an exchange broke off: the partner may have mixed them.
  std::uint64_t half_applied_chunks = 0;
  std::uint64_t chunks_refused = 0;   // received, and not mixed or not put in place; Mixer counts some by reason
  std::uint64_t redials = 0;  // a connection from the pool turned out to be dead: begun again on a new one
  std::optional<double> distance;  // |x - partner| / |x| at the last exchange of one's own
  training::Staleness staleness{};  // of those of its own that were completed
};

}  // namespace starling::node
