// What every peer's process is told at its start, and how it ended.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace starling::node {

struct ProcessOptions {
  // Folder for NAME.safetensors (the final replica) and for snapshots; empty: none are written.
  std::string out{};
  // Peers that begin the run together, itself included; 0: not known (gossip::MembershipOptions).
  std::uint32_t expected = 0;
  std::uint32_t snapshots = 0;  // replicas to save per epoch of the swarm's progress, at equal distances
  // The launcher's socket (training/runs/experiment/control.h); its end of file means: leave. -1: no
  // launcher.
  int control_fd = -1;
  // The process that started this peer for itself, as clients do for a trainer: the peer leaves when it has
  // ended, and then removes this folder, which belongs to the two. 0: there is none.
  int parent = 0;
  std::string parent_folder{};
};

struct PeerOutcome {
  // 0 finished or left, 1 the run failed, 2 bad input, 3 finished by doubtful claims, 4 a peer of another
  // version
  int exit_code = 0;
  std::string error;  // one sentence if exit_code is not 0
  bool left = false;  // before the run's end, as it was asked to
};
// Says what came of a peer, and returns the exit code of the process.
using LastWords = std::function<int(const PeerOutcome&)>;

}  // namespace starling::node
