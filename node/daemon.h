// The daemon: the real driver of one gossip::Peer. It owns the sockets, the clock, the worker threads and the
// replica; the core decides, the daemon does. `starling peer` is a thin shell around run_peer().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "training/experiment.h"

namespace starling::node {

struct PeerOptions {
  Address listen{"127.0.0.1", 0};
  std::optional<Address> advertise;  // what others should dial; default: the listen address
  std::vector<Address> join;         // empty: begin a run
  std::string name;                  // default: the host's name and the port
  std::string swarm = "starling";    // peers of another swarm are refused

  // What a beginner decides for the whole run. A joiner takes the shared settings from the swarm and only its
  // own (workers, pace, precision's device side, ...) from here.
  training::Experiment experiment;
  std::optional<std::string> expected_model;  // a joiner's --model: another one is refused with exit code 2
  std::optional<std::string> data;            // a joiner's --data: where its copy lies
  std::string data_root;                      // $STARLING_DATA

  // The shard of the data: slot mod slots. Without it the whole set, in the peer's own order.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> slot;

  std::string out;      // folder for NAME.safetensors (the final replica); empty: none is written
  int control_fd = -1;  // a socket to the launcher (training/control.h); its end of file means: leave
  bool snapshots =
      false;  // leave a snapshot at every twentieth of an epoch of swarm progress (for seconds_to_target)
};

struct PeerOutcome {
  int exit_code = 0;  // 0 finished or left, 1 the run failed, 2 bad input
  std::string error;  // one sentence where exit_code is not 0
};

// Runs until the run's end, a signal (SIGINT, SIGTERM: leave) or a failure. Blocks. One call per process.
PeerOutcome run_peer(const PeerOptions& options);

}  // namespace starling::node
