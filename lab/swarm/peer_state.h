// The states of a peer that the launcher of a swarm started: those that a peer reports
// (training/experiment/control.h), and those that only the launcher can observe. The names are those of the
// reports, of the live table and of summary.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace starling::lab {

enum class PeerState : std::uint8_t {
  starting,  // its process runs and has not reported yet
  joining,
  training,
  settling,
  finished,
  left,
  failed,   // reported by a peer that cannot continue
  crashed,  // its process ended by a signal, or before it had finished or left
  paused,   // stopped by a fault of the experiment
};

std::string_view name_of(PeerState state);
std::optional<PeerState> parse_peer_state(std::string_view name);

}  // namespace starling::lab
