#include "lab/swarm/process_faults.h"

#include <algorithm>

#include "lab/recurrence.h"

namespace starling::lab {

using training::Experiment;
using training::Fault;

namespace {

Status check_links_of_all_reduce(const Experiment& experiment) {
  const std::string why = ": " + std::string(traits(experiment.gossip.rule).name) +
                          " between processes uses Gloo's links, which cannot be shaped; leave it out, or "
                          "use 'starling simulate'";
  if (experiment.network.latency) return Error{"network.latency" + why};
  if (experiment.network.bandwidth) return Error{"network.bandwidth" + why};
  for (const Fault& fault : experiment.faults) {
    if (fault.kind == Fault::Kind::link) return Error{"the fault link of peer " + fault.peer.text() + why};
  }
  return Done{};
}

}  // namespace

Status check_for_processes(const Experiment& experiment) {
  if (traits(experiment.gossip.rule).all_at_once()) {
    if (Status possible = check_links_of_all_reduce(experiment); !possible) return possible;
  }
  for (const Fault& fault : experiment.faults) {
    if (fault.kind != Fault::Kind::poison) continue;
    return Error{
        "the fault poison of peer " + fault.peer.text() +
        ": poisoned peers exist only in 'starling simulate'; remove the fault to run the experiment on "
        "processes"};
  }
  return Done{};
}

std::string warning_for_processes(const Experiment& experiment) {
  const training::PipelineSettings& pipeline = experiment.pipeline;
  if (!pipeline.speeds.empty() || pipeline.bandwidth || pipeline.latency || pipeline.memory) {
    return "pipeline.speeds, bandwidth, latency and memory have no effect: they are those of simulated "
           "devices";
  }
  if (!experiment.network.port) return "";
  return "network.port has no effect: it is the network card of a simulated machine. Between processes of "
         "this "
         "machine each link has network.bandwidth to itself";
}

ProcessFaults::ProcessFaults(const Experiment& experiment) {
  const std::optional<std::uint32_t> spared = spared_by_churn(experiment);
  for (std::size_t place = 0; place < experiment.faults.size(); ++place) {
    const Fault& fault = experiment.faults[place];
    if (fault.kind == Fault::Kind::link) {
      const std::uint32_t peer = fault.peer.is_all() ? 0 : fault.peer.among(experiment.peers).front();
      add({fault.from, peer, Act::links});
      if (fault.to) add({*fault.to, peer, Act::links});
      continue;
    }
    for (const std::uint32_t peer : fault.peer.among(experiment.peers)) {
      switch (fault.kind) {
        case Fault::Kind::slow:    // a peer slows itself down
        case Fault::Kind::poison:  // check_for_processes() refuses it
        case Fault::Kind::link:
          break;
        case Fault::Kind::join:
          add({fault.from, peer, Act::start});
          break;
        case Fault::Kind::pause:
          sources_.push_back(
              [peer, pauses = Pauses(experiment, place, peer)]() mutable -> std::optional<Pair> {
                const auto pause = pauses.next();
                if (!pause) return std::nullopt;
                Pair pair{{pause->from, peer, Act::pause}};
                if (pause->to) pair.then = ProcessFault{*pause->to, peer, Act::resume};
                return pair;
              });
          break;
        case Fault::Kind::churn:
          if (peer == spared) break;
          [[fallthrough]];
        case Fault::Kind::crash:
        case Fault::Kind::leave:
          sources_.push_back(
              [peer, departures = Departures(experiment, place, peer)]() mutable -> std::optional<Pair> {
                const auto departure = departures.next();
                if (!departure) return std::nullopt;
                Pair pair{{departure->at, peer, departure->crash ? Act::crash : Act::leave}};
                if (departure->back) pair.then = ProcessFault{*departure->back, peer, Act::back};
                return pair;
              });
          break;
      }
    }
  }
  for (std::size_t source = 0; source < sources_.size(); ++source) draw(source);
}

void ProcessFaults::draw(std::size_t source) {
  const std::optional<Pair> pair = sources_[source]();
  if (!pair) return;
  add(pair->first, source);
  if (pair->then) add(*pair->then);
}

void ProcessFaults::add(const ProcessFault& fault, std::optional<std::size_t> source) {
  ahead_.insert({fault, numbers_++, source});
}

std::optional<Duration> ProcessFaults::next() const {
  return ahead_.empty() ? std::nullopt : std::optional(ahead_.begin()->fault.at);
}

std::optional<ProcessFault> ProcessFaults::take(Duration now) {
  if (ahead_.empty() || ahead_.begin()->fault.at > now) return std::nullopt;
  const Entry entry = *ahead_.begin();
  ahead_.erase(ahead_.begin());
  if (entry.source) draw(*entry.source);
  return entry.fault;
}

bool ProcessFaults::resumes() const {
  return std::any_of(ahead_.begin(), ahead_.end(),
                     [](const Entry& entry) { return entry.fault.act == Act::resume; });
}

bool ProcessFaults::brings() const {
  return std::any_of(ahead_.begin(), ahead_.end(), [](const Entry& entry) {
    return entry.fault.act == Act::start || entry.fault.act == Act::back;
  });
}

}  // namespace starling::lab
