// The circuits of a virtual network: bulk connections over a machine that relays. All circuits of a relay
// share its bandwidth.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace starling::lab {

struct Connection;

class Circuits {
 public:
  // The bandwidth that all circuits over this machine share, in bits per second.
  void set_bandwidth(std::uint32_t relay, double bandwidth) {
    relays_.resize(std::max<std::size_t>(relays_.size(), relay + std::size_t{1}));
    relays_[relay].bandwidth = bandwidth;
  }
  // REQUIRES: the relay has a bandwidth.
  void add(std::uint32_t relay, Connection& circuit) {
    relays_[relay].circuits.push_back(&circuit);
    ++opened_;
  }
  void remove(std::uint32_t relay, Connection& circuit) { std::erase(relays_[relay].circuits, &circuit); }
  // When a packet that reaches the relay at `at` has passed it.
  Instant passed(std::uint32_t relay, Instant at, std::size_t bytes) {
    Relay& it = relays_[relay];
    it.free_at = std::max(at, it.free_at) + from_seconds(static_cast<double>(bytes) * 8 / it.bandwidth);
    return it.free_at;
  }

  std::vector<Connection*> over(std::uint32_t relay) const {
    return relay < relays_.size() ? relays_[relay].circuits : std::vector<Connection*>();
  }
  std::uint64_t opened() const { return opened_; }

 private:
  struct Relay {
    double bandwidth = 0;
    Instant free_at;
    std::vector<Connection*> circuits;
  };
  std::vector<Relay> relays_;  // by machine; may be shorter
  std::uint64_t opened_ = 0;
};

}  // namespace starling::lab
