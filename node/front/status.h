// What a running peer reports about itself and its swarm over HTTP, as values. node/front/answers.h has the
// JSON texts that the peer sends and that `starling status` and `starling members` read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "gossip/members/membership.h"
#include "training/mixing/mixer.h"
#include "training/runs/records/peer_figures.h"
#include "training/runs/records/pipeline_record.h"
#include "training/runs/records/record.h"
#include "wire/messages.h"

namespace starling::node {

struct PeerStatus : training::PeerFigures, training::DeviceSharing {
  PeerStatus() { samples_per_second = 0; }  // in the last seconds; 0 unless it trains

  std::string name, id, swarm, version;
  std::string address;                               // at which others dial it; empty: they cannot
  std::string model, data, topology, rule, payload;  // empty while it joins
  // With several devices: the distance of their replicas from the mean (L2) at the last average.
  std::optional<double> device_spread;
  std::string phase;      // joining, training, settling, finished
  std::string condition;  // what it does now: its phase, paused or leaving
  std::string situation;  // one sentence about the run: progress, who is behind and why, when it ends
  struct Units {
    std::uint64_t epoch_samples = 0;  // 0 while it joins
    std::uint64_t sample_tokens = 0;  // tokens of a sample; 0: the data are no text
  } units;
  // Of the evaluated replica; its accuracy and this loss are on the first test samples.
  struct Judged {
    std::uint64_t steps = 0;
    std::optional<double> loss;
  } judged;
  std::optional<double> staleness;  // in its own steps, mean over its exchanges
  double uptime_seconds = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t members_live = 1, members_known = 1;  // including itself
  // The exchanges that it began; refused_chunks by reason, such as not_finite, without zeros.
  struct Exchanges : training::ExchangeTotals {
    std::uint64_t begun = 0;
    std::uint64_t answered = 0;  // begun by others
    std::uint64_t chunks_overlapped = 0, chunks_clipped = 0;
    double lost_weight = 0;  // push-sum, in replicas

    void count(const training::MixCounters& mixed);
    // "not finite 3, half applied 1": the chunks that were not mixed, for the log; empty if all were.
    std::string losses() const;
  } exchanges;
  std::map<std::string, std::uint64_t> connections_refused;  // by reason, without zeros
  struct Links {
    std::uint64_t open = 0, bulk_open = 0;
    struct Relay {  // for members that cannot be dialed
      std::uint64_t circuits_open = 0, circuits = 0, refused = 0, bytes = 0;
    } relay;
  } links;
  struct Process {
    std::uint64_t memory_bytes = 0;  // resident
    double loop_lag_seconds = 0;     // the delay of its thread's last timer
  } process;
};

// The figures are the latest that the member sent (wire::Vitals).
struct MemberStatus : training::PeerFigures {
  std::string name, id, address;
  std::string state;  // alive, suspect, failed, left, quarantined (alive, but gets no exchanges)
  std::string phase;
  std::string condition;      // both in one word, and whether it is paused: condition_of()
  bool earlier_life = false;  // it is gone, and another member has taken its name since
  std::uint32_t incarnation = 0;
  std::optional<double> last_heard_seconds;  // since its last direct message; nullopt: there was none
  std::optional<double> round_trip_seconds;  // of probes; nullopt: none was answered yet
  bool this_peer = false;
  std::string http;                // empty: none, or not known
  std::optional<double> slowdown;  // the median member's speed over its own
  std::optional<double> staleness;
  std::string partner;      // id; empty: none yet
  bool exchanging = false;  // with this peer, now
};

const char* phase_name(wire::Phase phase);

// The word for a member in tables, on the page and in the log: its state if that is not alive, "finished" if
// it left after the run's end, else "paused" or its phase.
std::string condition_of(const MemberStatus& member);

// "refused 2, timed out 1", for the log.
std::string counts_text(const std::map<std::string, std::uint64_t>& counts);

// Sets the slowdown of the members that train and have told their speed, relative to their median.
void compare_speeds(std::vector<MemberStatus>& members);

// All members that this peer knows, including itself, by name; earlier lives follow the latest one.
// A member's speed is 0 unless it trains. `exchanging`: its current partners.
std::vector<MemberStatus> list_members(const gossip::Membership& membership, Instant now,
                                       const std::vector<PeerId>& exchanging = {});

// Resident memory of this process in bytes; 0: unknown.
std::uint64_t resident_bytes();
std::uint64_t most_resident_bytes();  // since the process began

}  // namespace starling::node
