#include "lab/process_faults.h"

#include <algorithm>

namespace starling::lab {

using training::Experiment;
using training::Fault;

namespace {

Status check_links_of_all_reduce(const Experiment& experiment) {
  constexpr const char* kWhy =
      ": all-reduce between processes goes over Gloo's links, which are as they are; leave it out, or take "
      "'starling simulate'";
  if (experiment.latency) return Error{std::string("network.latency") + kWhy};
  if (experiment.bandwidth) return Error{std::string("network.bandwidth") + kWhy};
  for (const Fault& fault : experiment.faults) {
    if (fault.kind == Fault::Kind::link)
      return Error{"the fault link of peer " + training::format_fault_peer(fault.peer) + kWhy};
  }
  return Done{};
}

}  // namespace

Status check_for_processes(const Experiment& experiment) {
  if (experiment.rule == training::kAllReduce) {
    if (Status possible = check_links_of_all_reduce(experiment); !possible) return possible;
  }
  for (const Fault& fault : experiment.faults) {
    if (fault.kind != Fault::Kind::poison) continue;
    return Error{
        "the fault poison of peer " + std::to_string(fault.peer) +
        ": lying peers exist in 'starling simulate' alone; leave the fault out to run the experiment on "
        "processes"};
  }
  return Done{};
}

std::string warning_for_processes(const Experiment& experiment) {
  if (!experiment.port) return "";
  return "network.port is the network card of a simulated machine: between processes of this machine each "
         "link has "
         "network.bandwidth to itself";
}

std::vector<ProcessFault> process_faults(const Experiment& experiment) {
  using Act = ProcessFault::Act;
  std::vector<ProcessFault> faults;
  const auto add = [&](const Fault& fault, Act begin, Act end) {
    for (std::uint32_t peer = 0; peer < experiment.peers; ++peer) {
      if (!fault.concerns(peer)) continue;
      faults.push_back({fault.from, peer, begin});
      if (fault.to) faults.push_back({*fault.to, peer, end});
    }
  };
  for (const Fault& fault : experiment.faults) {
    switch (fault.kind) {
      case Fault::Kind::slow:
      case Fault::Kind::poison:  // check_for_processes() refuses it
        break;
      case Fault::Kind::link:
        add(fault, Act::links, Act::links);
        break;
      case Fault::Kind::pause:
        add(fault, Act::pause, Act::resume);
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

LinkShape link_at(const Experiment& experiment, std::uint32_t from, std::uint32_t to, Duration at) {
  LinkShape all;
  for (const Fault& fault : experiment.faults) {
    const bool concerns = fault.kind == Fault::Kind::link && (fault.concerns(from) || fault.concerns(to));
    if (!concerns || at < fault.from || (fault.to && at >= *fault.to)) continue;
    all = worse(all, {fault.link.latency, fault.link.bandwidth, fault.link.drop});
  }
  if (!all.latency) all.latency = experiment.latency;
  if (!all.bandwidth) all.bandwidth = experiment.bandwidth;
  return all;
}

bool joins_late(const Experiment& experiment, std::uint32_t peer) {
  return std::any_of(experiment.faults.begin(), experiment.faults.end(), [peer](const Fault& fault) {
    return fault.peer == peer && fault.kind == Fault::Kind::join;
  });
}

double slowness(const Experiment& experiment, std::uint32_t peer) {
  double factor = 1;
  for (const Fault& fault : experiment.faults) {
    if (fault.concerns(peer) && fault.kind == Fault::Kind::slow) factor = std::max(factor, fault.factor.median());
  }
  return factor;
}

}  // namespace starling::lab
