// Reads the file of the swarm's keys again when it changes, so that a running swarm can change its key. Used
// by the daemon's thread only.
#pragma once

#include <optional>

#include <asio/steady_timer.hpp>

#include "node/peer/lives.h"
#include "transport/trust/swarm_key.h"

namespace starling::node {

class KeyWatch {
 public:
  explicit KeyWatch(Started& started) : options_(started.options), timer_(started.io) {}

  // Looks at the file once a second from now on. No effect for a peer without a key.
  void begin();
  // As last read; nullopt: there is no key, or its file could never be read.
  const std::optional<transport::SwarmKeys>& keys() const { return keys_; }

 private:
  void look();

  const DaemonOptions& options_;
  asio::steady_timer timer_;
  std::optional<transport::SwarmKeys> keys_;  // as last read
  bool failing_ = false;                      // the file cannot be read, and that has been logged
};

}  // namespace starling::node
