// Links of the virtual world: each ordered pair of machines has a control and a bulk link, a
// first-in-first-out pipe with a bandwidth and a latency. A message occupies its link for its length, then
// travels.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "base/random.h"
#include "base/time.h"
#include "wire/messages.h"

namespace starling::lab {

struct NetworkOptions {
  Duration latency = std::chrono::microseconds(100);
  double bandwidth = 1e9;      // bits per second, of each link
  Duration latency_jitter{0};  // mean of an exponentially distributed addition, drawn per message
};

class VirtualNetwork {
 public:
  VirtualNetwork(NetworkOptions options, Random random) : options_(options), random_(random) {}

  struct Passage {
    Instant departure;  // the last byte has left; the link is free again
    Instant arrival;    // never earlier than that of what was sent before on the same link
  };
  Passage send(Instant now, std::uint32_t from, std::uint32_t to, wire::Purpose purpose, std::size_t bytes) {
    Link& link = links_[{from, to, purpose}];
    const double seconds = static_cast<double>(bytes) * 8 / options_.bandwidth;
    const Instant departure = std::max(now, link.free_at) + from_seconds(seconds);
    Duration travel = options_.latency;
    if (options_.latency_jitter.count() > 0) {
      travel += from_seconds(random_.exponential() * to_seconds(options_.latency_jitter));
    }
    link.free_at = departure;
    link.last_arrival = std::max(link.last_arrival, departure + travel);
    return {departure, link.last_arrival};
  }

  Duration latency() const { return options_.latency; }

 private:
  struct Link {
    Instant free_at, last_arrival;
  };
  NetworkOptions options_;
  Random random_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, wire::Purpose>, Link> links_;
};

}  // namespace starling::lab
