// One peer as the launcher of a swarm sees it: its current process, and what its former processes reported. A
// peer that leaves or crashes and comes back has several processes, one after the other, under one name.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lab/swarm/child_process.h"
#include "lab/swarm/peer_state.h"
#include "training/experiment/control.h"
#include "training/experiment/experiment.h"

namespace starling::lab {

using SteadyTime = std::chrono::steady_clock::time_point;

// One process of a peer.
struct Life {
  std::optional<ChildProcess> child{};
  std::optional<ChildProcess::Exit> exit{};
  training::PeerReport report{};  // the latest
  PeerState state = PeerState::starting;
  std::optional<PeerState> final_state{};  // finished, left or crashed, after the process has ended
  std::string address{};                   // empty until it listens
  std::map<std::uint32_t, training::LinkShape> links{};  // to other members, as last sent to the process
  std::string path{}, path_before_settling{};            // files of its replica
  std::optional<SteadyTime> first_step{};
  std::optional<SteadyTime> training_end{};  // until `trained`: the latest report of a step
  bool trained = false;                      // training_end is final
  std::uint64_t snapshot = 0;                // number of the latest
  bool paused = false;
  bool departing = false;  // a fault ends this process
  bool returns = false;    // the next process starts when this one has ended

  bool running() const { return child.has_value() && !exit; }
};

// Sums over the processes of a peer.
struct Counters {
  std::uint64_t steps = 0, samples = 0, answered = 0, bytes_sent = 0;
  training::ExchangeCounts exchanges{};
  training::Staleness staleness{};

  void add(const training::PeerReport& report) {
    steps += report.steps;
    samples += report.samples;
    answered += report.answered;
    bytes_sent += report.bytes_sent;
    exchanges += report.exchanges;
    staleness += report.staleness;
  }
};

struct Member {
  std::uint32_t number = 0;
  std::string name;
  std::uint32_t lives = 0;  // processes so far
  Counters former{};        // of the processes before the current one
  Life life{};

  bool started() const { return lives > 0; }
  bool running() const { return life.running(); }
  bool finished() const { return life.final_state == PeerState::finished; }
  // Over all its processes.
  std::uint64_t steps() const { return former.steps + life.report.steps; }
  std::uint64_t samples() const { return former.samples + life.report.samples; }
  std::uint64_t bytes_sent() const { return former.bytes_sent + life.report.bytes_sent; }
  std::uint64_t exchanges_begun() const {
    return former.exchanges.completed + life.report.exchanges.completed;
  }
  std::uint64_t exchanges() const { return exchanges_begun() + former.answered + life.report.answered; }
};

}  // namespace starling::lab
