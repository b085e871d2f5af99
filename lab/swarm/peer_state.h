// The states of a peer that the launcher of a swarm started: those that a peer reports
// (training/experiment/control.h), and those that only the launcher can observe. The names are those of the
// reports, of the live table and of summary.json.
#pragma once

#include <array>
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

inline constexpr std::array<std::string_view, 9> kPeerStateNames = {
    "starting", "joining", "training", "settling", "finished", "left", "failed", "crashed", "paused"};

constexpr std::string_view name_of(PeerState state) {
  return kPeerStateNames[static_cast<std::size_t>(state)];
}
constexpr std::optional<PeerState> parse_peer_state(std::string_view name) {
  for (std::size_t i = 0; i < kPeerStateNames.size(); ++i) {
    if (kPeerStateNames[i] == name) return static_cast<PeerState>(i);
  }
  return std::nullopt;
}

}  // namespace starling::lab
