// What a peer's user decides: `starling peer`'s flags and settings as values. node/peer/settings.h has the
// names of those that are not the experiment's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "node/keep/checkpointer.h"
#include "node/launch/process_options.h"
#include "training/runs/experiment/experiment.h"
#include "transport/trust/allow_list.h"

namespace starling::transport {
class TlsContext;  // transport/tls/tls.h
}

namespace starling::node {

struct DaemonOptions {
  struct Reach {
    Address listen{"127.0.0.1", 0};  // empty: the peer does not listen, and dials all others itself
    // What others dial, the first one preferably; at most 1 + wire::kAlsoMax. None: the listen address, or,
    // where that is all interfaces, the one at which members report that they have reached this peer.
    std::vector<Address> advertise{};
    std::optional<Duration>
        join_timeout{};       // fail if no member lets the peer in; unset: it tries without end
    std::uint64_t relay = 0;  // bits per second for members that cannot be dialed; 0: none
  } reach;
  std::vector<Address> join;  // empty: begin a run, or rejoin the one in `state`
  // Announce the peer on the local network. Without `join`: first look there for peers to join.
  bool discover = false;
  std::string name;                // default: the host's name and the port
  std::string swarm = "starling";  // peers of another swarm are rejected
  // From the swarm's keys in `key_file`, which is read again when it changes: peers without a key of them are
  // rejected too. Null: no key, and no encryption.
  std::shared_ptr<transport::TlsContext> tls;
  std::string key_file;
  // The only peers that may connect and that are dialed; unset: all of the swarm.
  std::optional<transport::AllowList> allow;

  // A peer that begins a run decides all of it. A joiner takes the shared settings from the swarm and only
  // its own (workers, pace, device, ...) from here.
  training::Experiment experiment;
  std::vector<std::string> given;  // keys of the settings that the user gave, for warnings about ignored ones
  std::optional<std::string> expected_model;  // a joiner's --model: another one ends it with exit code 2
  std::optional<std::string> data;            // a joiner's --data: where its copy is
  std::string data_root;                      // $STARLING_DATA

  // The shard of the data: slot mod slots. Without it the whole set, in the peer's own order.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> slot;

  // Where the peer serves HTTP (node/front/http.h); port 0 takes any.
  std::optional<Address> http;

  // The folder of the peer's identity and of the peer cache (node/keep/peer_cache.h); empty: the peer has a
  // new identity and no cache. A peer without `join` joins through the addresses in its cache. If no member
  // has welcomed it after `cache.begin_after`, or up to half as long again, it begins the cached run again;
  // if a member rejected its key, it ends with exit code 1 instead. The run is always the cached one, even if
  // `experiment` differs: peers that come back from a blackout at different times must agree on it.
  std::string state;
  struct Cache {
    Duration interval = std::chrono::seconds(3);  // between two writes of a cache that has changed
    Duration begin_after = std::chrono::seconds(10);
  } cache;

  // Steps of another program (node/trainers).
  struct Outside {
    std::string socket{};                       // where its trainer attaches; empty: the peer has workers
    Duration grace = std::chrono::seconds(60);  // OutsideOptions::grace
  } trainer;

  struct Token {
    std::string text{};  // for commands over HTTP from other machines; empty: only this machine may send them
    bool always = false;  // commands from this machine need the token too
  } token;
  std::string tensorboard;  // folder for event files; empty: none are written
  CheckpointOptions checkpoints;
  // A checkpoint to resume from, or a folder of them. With `join`, or if `state` has a swarm, the parameters
  // come from the swarm and the rest from the checkpoint. If the folder is empty and is the one of
  // `checkpoints`, the peer does not resume.
  std::string resume;

  // Of a run without gossip (AllReduceOptions, node/all_reduce/all_reduce.h); unset: its default.
  struct AllReduce {
    std::string rendezvous{};
    std::optional<Duration> patience{};
  } all_reduce;

  ProcessOptions process;
  // Another file for the final replica. A folder, with '/' at the end: NAME.safetensors in it, or the first
  // of NAME-2.safetensors and so on that does not exist. Empty: none.
  std::string export_to;
};

}  // namespace starling::node
