// One process of a run without gossip (lab/simulate/all_reduce.cc explains it) on this machine's processors
// or GPUs: no daemon, no core, no links. With all-reduce it computes the gradient of its own batch, sums it
// with all other processes' gradients (node/all_reduce/collective.h), and takes the common step; with diloco
// it makes a round of steps alone, and then the common outer step. A launcher starts all processes, gets
// their reports as from a daemon (training/runs/experiment/control.h), and may ask for the end. Rounds are
// common, so the end is agreed on: a process that is asked to end cuts its round short and passes that on.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "node/launch/process_options.h"
#include "training/runs/experiment/experiment.h"

namespace starling::node {

struct AllReduceOptions {
  training::Experiment experiment;  // with .peers processes
  std::uint32_t number = 0;         // its rank, and its shard of the data
  std::string name;
  std::string data_root;  // $STARLING_DATA
  ProcessOptions process;
  std::string rendezvous;  // an empty folder of this run, where the peers find each other
  Duration patience = std::chrono::minutes(10);  // with a silent peer: longer than any step
};

// Runs until all processes end. Blocks; one call per process, as run_peer(). A signal (SIGINT, SIGTERM) or
// the launcher's command asks all to end after the next round, which is then cut short. If another process is
// gone, the exit code is 1. REQUIRES: training::check_rule() succeeds.
PeerOutcome run_all_reduce_peer(const AllReduceOptions& options);

}  // namespace starling::node
