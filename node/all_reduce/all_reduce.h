// One process of a run by all-reduce (lab/all_reduce.h says what that is), on this machine's processors or
// GPUs: no daemon, no core, no links. It computes the gradient of its own batch, sums it with all others'
// (node/collective.h), takes the step that all take, and so on; a launcher starts all of them, hears how they
// fare as it does of a daemon (training/control.h), and may ask for the end. As every step is one of all, the
// end is agreed on: what one of them is asked, it says together with its gradient.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "node/launch/outcome.h"
#include "training/experiment/experiment.h"

namespace starling::node {

struct AllReduceOptions {
  training::Experiment experiment;  // .peers of them
  std::uint32_t number = 0;         // of this one: its rank, and its shard of the data
  std::string name;
  std::string data_root;        // $STARLING_DATA
  std::string out;              // folder for NAME.safetensors; empty: none is written
  int control_fd = -1;          // a socket to the launcher; its end of file means: end
  std::uint32_t snapshots = 0;  // leave so many in an epoch
  std::string rendezvous;       // a folder of this run alone, where the peers find one another
  Duration patience = std::chrono::minutes(10);  // with a peer that is silent: longer than any step lasts
};

// Runs until all of them end. Blocks; one call per process, as run_peer(). A signal (SIGINT, SIGTERM) or the
// launcher's word asks all for the end after the next step. Where another peer is gone the outcome says so,
// with exit code 1. REQUIRES: training::check_rule() is content.
PeerOutcome run_all_reduce_peer(const AllReduceOptions& options);

}  // namespace starling::node
