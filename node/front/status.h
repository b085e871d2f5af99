// What a running peer tells about itself and its swarm over HTTP, as values and as JSON both ways: the daemon
// writes, `starling status` and `starling members` read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "gossip/membership.h"
#include "training/exchange/mixer.h"
#include "wire/messages.h"

namespace starling::node {

struct PeerStatus {
  std::string name, id, swarm, address, version;
  std::string model, data, topology;     // empty while it joins
  std::string rule, payload;             // likewise
  std::string device;                    // on which it trains: cpu, cuda:0, or several; empty while it joins
  std::optional<double> device_spread;   // of several: how far their replicas were from the mean (L2), lately
  std::string phase;                     // joining, training, settling, finished
  bool paused = false;                   // by its owner
  std::uint64_t steps = 0, samples = 0;  // its own
  std::uint64_t swarm_samples = 0;       // of all that ever took part
  std::uint64_t epoch_samples = 0;       // 0 while it joins
  double samples_per_second = 0;         // since its first step
  std::optional<double> loss;            // of late batches, smoothed
  std::optional<double> learning_rate;   // in effect; nothing while it joins
  std::optional<double> accuracy;        // of its own replica on the first test samples ...
  std::uint64_t accuracy_steps = 0;      // ... when it had made so many steps
  std::optional<double> distance;        // to the partner of a late exchange
  std::optional<double> staleness;       // in own steps, the mean over its exchanges
  double uptime_seconds = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t members_live = 1, members_known = 1;  // itself included
  struct Exchanges {
    std::uint64_t begun = 0, completed = 0, aborted = 0, rejected = 0;  // its own
    std::uint64_t answered = 0;                                         // of others
    std::uint64_t half_applied_chunks = 0;
    std::map<std::string, std::uint64_t> chunks_refused;  // by reason, such as not_finite; those that occurred
    std::uint64_t chunks_overlapped = 0, chunks_clipped = 0;
    double lost_weight = 0;  // of push-sum, in replicas

    void count(const training::MixCounters& mixed);
    // "not finite 3, half applied 1": the chunks that were not mixed, for the log; empty where there are none.
    std::string losses() const;
  } exchanges;
  std::map<std::string, std::uint64_t> connections_refused;  // by reason; those that occurred
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t links_open = 0, bulk_links_open = 0;
  std::uint64_t memory_bytes = 0;  // resident
  double loop_lag_seconds = 0;     // how late its thread came to its latest timer
};

struct MemberStatus {
  std::string name, id, address;
  std::string
      state;  // alive, suspect, failed, left, quarantined (it lives, and no exchange is begun with it)
  std::string phase;
  std::uint32_t incarnation = 0;
  std::uint64_t samples = 0, steps = 0;
  std::optional<double> last_heard_seconds;  // ago; nothing: never heard directly
  std::optional<double> round_trip_seconds;  // of probes; nothing: none was answered yet
  bool this_peer = false;
  std::string http, device;  // empty: none, not known
  bool paused = false;
  // What it said of itself last (wire::Vitals).
  std::optional<double> samples_per_second, loss, distance, staleness;
  std::optional<double> slowdown;  // the median member's speed over its own
  std::string partner;             // id; empty: none yet
  bool exchanging = false;         // an exchange with it goes on, here and now
};

const char* phase_name(wire::Phase phase);

// All that this peer knows of, itself included, by name. `exchanging`: whom it exchanges with at the moment.
std::vector<MemberStatus> list_members(const gossip::Membership& membership, Instant now,
                                       const std::vector<PeerId>& exchanging = {});

// One line each, its newline included: an object, and {"members": [...]}.
std::string to_json(const PeerStatus& status);
std::string to_json(const std::vector<MemberStatus>& members);

// An Error where the text is not what to_json() writes.
Result<PeerStatus> parse_status(const std::string& text);
Result<std::vector<MemberStatus>> parse_members(const std::string& text);

// {"leaving": true}: the answer of a peer that was asked to leave.
std::string leaving_json();
bool is_leaving(const std::string& text);

// The sentence of {"error": ...}; empty where there is none.
std::string parse_error(const std::string& text);

// {"address": "HOST:PORT"}: whom a peer is to meet.
std::string introduction_json(const Address& address);
Result<Address> parse_introduction(const std::string& text);

// {"topology": NAME}: what the swarm is to follow; an Error where it is something else.
std::string topology_request_json(const std::string& name);
Result<std::string> parse_topology_request(const std::string& text);

// {"paused": true}: the answer of a peer that was asked to rest, or to go on.
std::string paused_json(bool paused);

// {"level": "debug"}: what the log is to tell from now on: trace, debug, info, warning or error.
std::string log_level_json(const std::string& level);
Result<std::string> parse_log_level(const std::string& text);

// Memory of this process that is resident; 0 where the system does not say.
std::uint64_t resident_bytes();
std::uint64_t most_resident_bytes();  // since the process began

}  // namespace starling::node
