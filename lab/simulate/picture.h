// The state of a simulated swarm at one moment, for the live page of `starling simulate --http`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace starling::lab {

struct PicturedPeer {
  std::string name;
  PeerId id;
  std::string condition;  // joining, training, paused, settling, finished, left or failed
  std::uint64_t steps = 0, samples = 0, exchanges = 0, bytes_sent = 0;
  std::optional<double> loss, learning_rate;
  bool serves = false;
};

struct SwarmPicture {
  Instant now;  // virtual
  std::string topology;
  std::uint64_t samples = 0;                     // of all peers
  std::optional<double> fraction;                // of the run that is done; unset: unknown
  std::optional<double> accuracy, disagreement;  // of the latest evaluation: of the mean, and the distance
  std::vector<PicturedPeer> peers;               // and servers
};

}  // namespace starling::lab
