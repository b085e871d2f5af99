// The messages between a peer and the launcher that started it, over a socket pair. A peer sends reports, one
// JSON object a line: its address once it listens, its status four times a second, and its results. The
// launcher sends "end" (stop training, settle, write, exit), "leave", or the new shape of a link.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "training/runs/records/peer_figures.h"
#include "training/runs/records/pipeline_record.h"
#include "training/runs/records/record.h"

namespace starling::training {

// Programs such as `timeout` signal a process and its group, and a launcher passes signals on: within this
// time it is one wish.
inline constexpr std::chrono::seconds kSameWish(1);

struct PeerReport : PeerFigures, DeviceSharing {
  enum class Kind : std::uint8_t { listening, status, snapshot, finished };
  PeerReport() {
    device = "cpu";
    samples_per_second = 0;  // since its first step
  }

  Kind kind = Kind::status;
  std::string address;         // of listening
  std::string state;           // of status, finished: joining, training, settling, finished, left
  std::uint32_t members = 0;   // live members that it knows, itself included
  double seconds = 0;          // since its first step
  ExchangeTotals exchanges;    // completed: those it began, so that a sum over peers counts each once
  std::uint64_t answered = 0;  // completed ones that others began
  std::uint64_t snapshot = 0;  // of snapshot: which twentieth of an epoch, from 1
  // How it used the time since its training began (training/runs/records/timeline.h).
  double computing_seconds = 0, exchanging_seconds = 0, waiting_seconds = 0;
  Staleness staleness{};             // of the exchanges that it began and completed
  std::string path;                  // of snapshot, finished: the file; empty: none was written
  std::string path_before_settling;  // of finished
};
std::string to_json(const PeerReport& report);  // one line, without its newline
Result<PeerReport> parse_report(std::string_view line);

inline constexpr std::string_view kEndCommand = "end";
inline constexpr std::string_view kLeaveCommand = "leave";

// The shape, from now on, of the peer's link to this address.
struct LinkOrder {
  Address to;
  Duration latency{0};   // one way
  double bandwidth = 0;  // bits per second; 0: as fast as it goes
  double drop = 0;       // in [0, 1): chance that a frame is lost, each time it is sent
  friend bool operator==(const LinkOrder&, const LinkOrder&) = default;
};
// "link 127.0.0.1:7101 latency=20ms bandwidth=10Mbit/s drop=0.01"; values of 0 are left out.
std::string format_link_order(const LinkOrder& order);
bool is_link_order(std::string_view command);
Result<LinkOrder> parse_link_order(std::string_view command);  // the inverse, exact

}  // namespace starling::training
