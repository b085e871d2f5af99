// A virtual network of machines that record arrivals and breaks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "lab/world/network/virtual_network.h"

namespace starling::lab {

using namespace std::chrono_literals;

inline Instant at(Duration since_start) { return Instant{since_start}; }

// Machines that record arrivals and breaks.
class SmallNetwork final : public NetworkHost {
 public:
  explicit SmallNetwork(VirtualNetworkOptions options = calm())
      : conditions(options.latency, options.bandwidth),
        network(options, conditions, Random(3), queue_, *this) {}

  static VirtualNetworkOptions calm() {
    VirtualNetworkOptions options;
    options.latency = 1ms;
    options.bandwidth = 1e9;
    return options;
  }

  void send(Connection& c, std::uint32_t from, std::uint64_t number, std::size_t bytes = 100) {
    network.send(c, from, packet(number, bytes));
  }
  static PacketPtr packet(std::uint64_t number, std::size_t bytes = 100) {
    auto p = std::make_unique<Packet>();
    p->exchange = number;
    p->bytes = bytes;
    return p;
  }
  void run_until(Instant until) {
    queue_.schedule(until, [] {});
    while (queue_.next() < until) queue_.run_one();
    queue_.run_one();
  }
  std::vector<std::uint64_t> numbers(std::uint32_t machine) const {
    std::vector<std::uint64_t> all;
    for (const auto& a : arrivals) {
      if (a.to == machine) all.push_back(a.number);
    }
    return all;
  }

  struct Arrival {
    std::uint32_t to;
    std::uint64_t number;
    Instant at;
  };
  struct Break {
    std::uint32_t end;
    Instant at;
    bool undelivered;
  };
  std::vector<Arrival> arrivals;
  std::vector<Break> breaks;
  std::map<std::uint32_t, Reach> reaches;
  std::map<std::uint32_t, Instant> asleep_until;

 private:
  Reach reach(std::uint32_t machine) const override {
    const auto found = reaches.find(machine);
    return found == reaches.end() ? Reach::up : found->second;
  }
  Instant awake(std::uint32_t machine) const override {
    const auto found = asleep_until.find(machine);
    return found == asleep_until.end() ? queue_.now() : std::max(queue_.now(), found->second);
  }
  void arrived(Connection&, std::uint32_t, std::uint32_t to, Packet& packet) override {
    arrivals.push_back({to, packet.exchange, queue_.now()});
  }
  void broken(Connection&, std::uint32_t end, std::uint32_t, bool undelivered) override {
    breaks.push_back({end, queue_.now(), undelivered});
  }

  EventQueue queue_;

 public:
  NetworkConditions conditions;
  VirtualNetwork network;
};

}  // namespace starling::lab
