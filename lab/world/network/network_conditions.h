// What hinders packets between the machines of a virtual network, at any time: cuts, clogs, poor links,
// routers and failing lookups of names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "lab/world/faults.h"

namespace starling::lab {

class NetworkConditions {
 public:
  // The conditions of all links without a poor shape.
  NetworkConditions(Duration latency, double bandwidth) : latency_(latency), bandwidth_(bandwidth) {}

  // Blocks packets from one machine to another during the interval; packets in transit arrive.
  void cut(std::uint32_t from, std::uint32_t to, TimeRange interval);
  // Divides the bandwidth between two machines, in both directions, during the interval.
  void clog(std::uint32_t a, std::uint32_t b, TimeRange interval, double factor);
  // Packets that are sent during the interval from or to these machines, or between them and `others` if
  // there are any, have these properties; of several shapes the worse value counts. A lost packet arrives
  // later (wire/loss.h), and the following packets wait for it.
  void shape(const std::vector<std::uint32_t>& machines, const std::vector<std::uint32_t>& others,
             TimeRange interval, const LinkChange& shape);
  // This machine is behind a router: nobody can dial it.
  void hide(std::uint32_t machine);
  // Dials of this machine that begin in this interval are lost.
  void block_dials(std::uint32_t machine, TimeRange interval);

  struct OfPacket {
    Duration latency;
    double bandwidth;
    double drop;
  };
  OfPacket of(Instant now, std::uint32_t from, std::uint32_t to) const;
  // The first instant from `now` on at which nothing blocks the way.
  Instant clear_of_cuts(Instant now, std::uint32_t from, std::uint32_t to) const;
  // When the last byte of a packet that begins at `at` leaves.
  Instant sent_by(std::uint32_t from, std::uint32_t to, Instant at, std::size_t bytes,
                  double bandwidth) const;
  bool is_hidden(std::uint32_t machine) const { return machine < hidden_.size() && hidden_[machine]; }
  bool are_dials_blocked(Instant now, std::uint32_t machine) const;

 private:
  struct Clog {
    TimeRange interval;
    double factor;
  };
  struct Shape {
    std::vector<bool> machines, others;  // by index; shorter than the list of machines; no others: all
    TimeRange interval;
    LinkChange shape;
    bool concerns(std::uint32_t from, std::uint32_t to) const;
  };

  Duration latency_;
  double bandwidth_;
  std::unordered_map<std::uint64_t, std::vector<TimeRange>> cuts_;
  std::unordered_map<std::uint64_t, std::vector<Clog>> clogs_;
  std::vector<Shape> shapes_;
  std::vector<bool> hidden_;                      // by machine; may be shorter
  std::vector<std::vector<TimeRange>> no_dials_;  // by machine; may be shorter
};

}  // namespace starling::lab
