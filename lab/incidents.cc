#include "lab/incidents.h"

namespace starling::lab {

using training::Fault;

std::vector<Incident> incidents_of(const training::Experiment& experiment) {
  std::vector<Incident> incidents;
  std::vector<std::size_t> slownesses(experiment.peers);  // of each peer, so far
  for (const Fault& fault : experiment.faults) {
    const Instant from{fault.from};
    const Instant to = fault.to ? Instant{*fault.to} : kNever;
    const auto for_each_peer = [&](const auto& befall) {
      for (std::uint32_t i = 0; i < experiment.peers; ++i)
        if (fault.concerns(i)) befall(i);
    };
    switch (fault.kind) {
      case Fault::Kind::slow:
        for_each_peer([&](std::uint32_t peer) {
          incidents.emplace_back(
              Slow{peer, fault.factor, from, to,
                   training::chance_of_slowness(experiment.seed, peer, slownesses[peer]++)});
        });
        break;
      case Fault::Kind::pause:
        for_each_peer([&](std::uint32_t peer) { incidents.emplace_back(Pause{peer, from, to}); });
        break;
      case Fault::Kind::crash:
        incidents.emplace_back(Crash{fault.peer, from});
        break;
      case Fault::Kind::leave:
        incidents.emplace_back(Leave{fault.peer, from});
        break;
      case Fault::Kind::join:
        break;
      case Fault::Kind::poison:
        incidents.emplace_back(Poison{fault.peer, from, to, 1, poison_named(fault.poison).value()});
        break;
      case Fault::Kind::link:
        for_each_peer([&](std::uint32_t peer) {
          incidents.emplace_back(
              PoorLinks{peer, from, to, {fault.link.latency, fault.link.bandwidth, fault.link.drop}});
        });
        break;
    }
  }
  return incidents;
}

double slowness_of_step(std::span<const Slow> slow, Instant at, std::uint64_t step) {
  double factor = 1;
  for (const Slow& s : slow) {
    if (s.from <= at && at < s.to) factor *= s.factor.of_step(s.chance, step);
  }
  return factor;
}

Instant awake_at(std::span<const Interval> pauses, Instant at) {
  for (const Interval& pause : pauses) {
    if (pause.covers(at)) at = pause.to;
  }
  return at;
}

}  // namespace starling::lab
