#include "lab/swarm/peer_state.h"

#include <array>

namespace starling::lab {
namespace {

constexpr std::array<std::string_view, 9> kNames = {"starting", "joining", "training", "settling", "finished",
                                                    "left",     "failed",  "crashed",  "paused"};
static_assert(kNames.size() == static_cast<std::size_t>(PeerState::paused) + 1);

}  // namespace

std::string_view name_of(PeerState state) {
  return kNames[static_cast<std::size_t>(state)];
}

std::optional<PeerState> parse_peer_state(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<PeerState>(i);
  }
  return std::nullopt;
}

}  // namespace starling::lab
