// The faults of an experiment: the [[fault]]s of its file (docs/FAULTS.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "training/runs/experiment/settings/quantities.h"
#include "training/runs/experiment/slowness.h"

namespace starling::training {

// How a real or virtual link differs from the usual.
struct LinkChange {
  std::optional<Duration> latency{};  // one way; unset: as usual
  std::optional<double> bandwidth{};  // bits per second, each way; unset: as usual
  double drop = 0;                    // in [0, 1): chance that a frame is lost and sent again
  friend bool operator==(const LinkChange&, const LinkChange&) = default;
};

// The combination of both: the longer latency, the smaller bandwidth; a frame is lost if either loses it.
LinkChange worse(const LinkChange& a, const LinkChange& b);

// An event that disturbs peers or links. Times count from the run's start (virtual or wall).
struct Fault {
  enum class Kind : std::uint8_t { slow, pause, crash, leave, join, poison, link, churn };
  // How often a live peer crashes or leaves, at random moments, and for how long.
  struct Churn {
    double crashes_per_minute = 0, leaves_per_minute = 0;
    std::optional<Duration> back_after{};  // the mean of an exponential distribution; unset: for good
    friend bool operator==(const Churn&, const Churn&) = default;
  };
  static constexpr std::uint32_t kAll = PeerSet::kAll;
  PeerSet peer = 0;  // all: of slow, pause, link and churn
  Kind kind = Kind::slow;
  Slowness factor{};  // of slow: factor of a step's duration
  Duration from{0};
  std::optional<Duration> to{};    // of what lasts; without it, to the end
  std::string poison{};            // of poison: one of poisons()
  LinkChange link{};               // of link: of all links of the peers meanwhile, each for itself,
  std::optional<PeerSet> other{};  // or of those to these peers
  std::optional<Duration> every{}, length{};  // of pause: from one's beginning to the next one's, and of each
  std::optional<Duration> back_after{};       // of crash and leave: a new instance starts so long after
  Churn churn{};                              // of churn
  bool concerns(std::uint32_t number) const { return peer.contains(number); }
  // For link: whether the fault concerns the link between these two.
  bool concerns_link(std::uint32_t a, std::uint32_t b) const {
    if (!other) return concerns(a) || concerns(b);
    return (concerns(a) && other->contains(b)) || (concerns(b) && other->contains(a));
  }
  friend bool operator==(const Fault&, const Fault&) = default;
};
// The names in the file, by Fault::Kind.
inline constexpr std::array kFaultKinds = {"slow", "pause",  "crash", "leave",
                                           "join", "poison", "link",  "churn"};
const char* name(Fault::Kind kind);
bool lasts(Fault::Kind kind);  // has a `to`: slow, pause, poison, link and churn
// What a poisoned peer sends in every chunk: one "nan", "inf" or "huge" value, or all values wrong ("noise",
// "sign-flip", "frozen").
const std::vector<std::string>& poisons();

// --slow PEER=FACTOR[@FROM..[TO]]: "3=10", "3=10@5s..60s", "all=log-normal:sigma=1", "0-3=2.5@1m.."
Result<Fault> parse_slow(std::string_view text);
std::string format_slow(const Fault& fault);  // its inverse. REQUIRES: fault.kind == slow

// Whether a fault is possible with this number of peers: its peers exist, its keys belong to its kind and fit
// together, its numbers are within limits, its times are in order. The Error names neither file nor fault.
Status check_fault(const Fault& fault, std::uint32_t peers);

}  // namespace starling::training
