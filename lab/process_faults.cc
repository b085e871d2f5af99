#include "lab/process_faults.h"

#include <algorithm>

namespace starling::lab {

using training::Experiment;
using training::Fault;

Status check_for_processes(const Experiment& experiment) {
  for (const Fault& fault : experiment.faults) {
    if (fault.kind != Fault::Kind::poison && fault.kind != Fault::Kind::link) continue;
    const std::string kind = name(fault.kind);
    return Error{"the fault " + kind + " of peer " + std::to_string(fault.peer) +
                 (fault.kind == Fault::Kind::poison ? ": lying peers exist" : ": links of a single peer exist") +
                 " in 'starling simulate' alone; leave the fault out to run the experiment on processes"};
  }
  return Done{};
}

std::vector<ProcessFault> process_faults(const Experiment& experiment) {
  using Act = ProcessFault::Act;
  std::vector<ProcessFault> faults;
  for (const Fault& fault : experiment.faults) {
    switch (fault.kind) {
      case Fault::Kind::slow:
      case Fault::Kind::poison:  // check_for_processes() refuses these
      case Fault::Kind::link:
        break;
      case Fault::Kind::pause:
        faults.push_back({fault.from, fault.peer, Act::pause});
        if (fault.to) faults.push_back({*fault.to, fault.peer, Act::resume});
        break;
      case Fault::Kind::crash:
        faults.push_back({fault.from, fault.peer, Act::crash});
        break;
      case Fault::Kind::leave:
        faults.push_back({fault.from, fault.peer, Act::leave});
        break;
      case Fault::Kind::join:
        faults.push_back({fault.from, fault.peer, Act::start});
        break;
    }
  }
  std::stable_sort(faults.begin(), faults.end(),
                   [](const ProcessFault& a, const ProcessFault& b) { return a.at < b.at; });
  return faults;
}

bool joins_late(const Experiment& experiment, std::uint32_t peer) {
  return std::any_of(experiment.faults.begin(), experiment.faults.end(), [peer](const Fault& fault) {
    return fault.peer == peer && fault.kind == Fault::Kind::join;
  });
}

double slowness(const Experiment& experiment, std::uint32_t peer) {
  double factor = 1;
  for (const Fault& fault : experiment.faults) {
    if (fault.peer == peer && fault.kind == Fault::Kind::slow) factor = std::max(factor, fault.factor);
  }
  return factor;
}

}  // namespace starling::lab
