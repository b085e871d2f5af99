// The daemon: the real driver of one gossip::Peer. It owns the sockets, the clock, the worker threads and the
// replica; the core decides, the daemon does. `starling peer` is a thin shell around run_peer().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "node/keep/checkpoint_options.h"
#include "node/launch/outcome.h"
#include "training/experiment/experiment.h"

namespace starling::transport {
class TlsContext;  // transport/tls.h
}

namespace starling::node {

struct PeerOptions {
  Address listen{"127.0.0.1", 0};
  std::optional<Address> advertise;  // what others should dial; default: the listen address
  std::vector<Address> join;         // empty: begin a run, or rejoin the one that `state` remembers
  std::string name;                  // default: the host's name and the port
  std::string swarm = "starling";    // peers of another swarm are refused
  // Of the swarm's key: whoever lacks it is refused too. Null: there is none, and nothing is encrypted.
  std::shared_ptr<const transport::TlsContext> tls;

  // What a beginner decides for the whole run. A joiner takes the shared settings from the swarm and only its
  // own (workers, pace, precision's device side, ...) from here.
  training::Experiment experiment;
  std::vector<std::string>
      given;  // keys of settings that were given as flags, so that whoever gave them hears of it
  std::optional<std::string> expected_model;  // a joiner's --model: another one is refused with exit code 2
  std::optional<std::string> data;            // a joiner's --data: where its copy lies
  std::string data_root;                      // $STARLING_DATA

  // The shard of the data: slot mod slots. Without it the whole set, in the peer's own order.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> slot;

  // Where people ask this peer how it is (node/http.h); port 0 takes any.
  std::optional<Address> http;

  // The folder of the peer cache (node/peer_cache.h); empty: nothing is remembered. A peer without `join`
  // whose cache names other addresses joins through them. If nobody has welcomed it after `begin_after`, or
  // half as long again, it begins the cached run anew, unless somebody there locked it out by a key: then it ends with exit
  // code 1. The run is always the cached one, even where
  // `experiment` says another: peers that come back from a blackout each at its own time must agree on it.
  std::string state;
  Duration cache_interval = std::chrono::seconds(3);  // the cache is written so often, where it changed
  Duration begin_after = std::chrono::seconds(10);

  std::string token;    // that orders over HTTP from another machine must name; empty: none are taken from there
  std::string tensorboard;  // folder for event files; empty: none are written
  CheckpointOptions checkpoints;
  // A checkpoint to go on from, or a folder of them. With `join`, or a swarm that `state` remembers, the parameters are
  // the swarm's, and the rest is the checkpoint's. A folder without any begins anew where `checkpoints` is that folder.
  std::string resume;

  std::string out;      // folder for NAME.safetensors (the final replica); empty: none is written
  std::string export_to;  // another file for it; empty: none
  int control_fd = -1;  // a socket to the launcher (training/control.h); its end of file means: leave
  std::uint32_t snapshots = 0;  // leave so many in an epoch of swarm progress, at equal distances (for seconds_to_target)
};

// Runs until the run's end, a signal (SIGINT, SIGTERM: leave) or a failure. Blocks. One call per process: a
// thread that is in something that cannot be interrupted (a disk, a name being looked up, the step of a large
// model) has a moment to end, and is then ended together with the process, by the outcome's exit code. So a
// peer that is told to leave is gone within three seconds.
PeerOutcome run_peer(const PeerOptions& options);

}  // namespace starling::node
