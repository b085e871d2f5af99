#include "training/experiment/conditions.h"

#include <algorithm>

namespace starling::training {

LinkShape link_at(const Experiment& experiment, std::uint32_t from, std::uint32_t to, Duration at) {
  LinkShape all;
  for (const Fault& fault : experiment.faults) {
    const bool concerns = fault.kind == Fault::Kind::link && fault.concerns_link(from, to);
    if (!concerns || at < fault.from || (fault.to && at >= *fault.to)) continue;
    all = worse(all, fault.link);
  }
  if (!all.latency) all.latency = experiment.latency;
  if (!all.bandwidth) all.bandwidth = experiment.bandwidth;
  return all;
}

double slowness(const Experiment& experiment, std::uint32_t peer) {
  double factor = 1;
  for (const Fault& fault : experiment.faults) {
    if (fault.concerns(peer) && fault.kind == Fault::Kind::slow)
      factor = std::max(factor, fault.factor.median());
  }
  return factor;
}

}  // namespace starling::training
