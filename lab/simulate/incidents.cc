#include "lab/simulate/incidents.h"

#include <algorithm>
#include <optional>

#include "lab/recurrence.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::lab {

using training::Experiment;
using training::Fault;

namespace {

Recurring recurring_pauses(const Experiment& experiment, std::size_t fault, std::uint32_t peer) {
  return [peer, pauses = Pauses(experiment, fault, peer)]() mutable -> std::optional<Incident> {
    const auto next = pauses.next();
    return next ? std::optional(Pause{peer, Instant{next->from}, Instant{*next->to}}) : std::nullopt;
  };
}

Incident incident_of(const Departures::Departure& departure, std::uint32_t peer) {
  const std::optional<Instant> back = departure.back ? std::optional(Instant{*departure.back}) : std::nullopt;
  if (departure.crash) return Crash{peer, Instant{departure.at}, false, back};
  return Departure{peer, Instant{departure.at}, back, true};
}

Recurring recurring_departures(const Experiment& experiment, std::size_t fault, std::uint32_t peer) {
  return [peer, departures = Departures(experiment, fault, peer)]() mutable -> std::optional<Incident> {
    const auto next = departures.next();
    return next ? std::optional(incident_of(*next, peer)) : std::nullopt;
  };
}

}  // namespace

std::vector<Incident> incidents_of(const Experiment& experiment) {
  std::vector<Incident> incidents;
  std::vector<std::size_t> slownesses(experiment.peers);  // number per peer, so far
  for (std::size_t place = 0; place < experiment.faults.size(); ++place) {
    const Fault& fault = experiment.faults[place];
    const std::vector<std::uint32_t> peers = fault.peer.among(experiment.peers);
    const Instant from{fault.from};
    const Instant to = fault.to ? Instant{*fault.to} : kNever;
    if (fault.kind == Fault::Kind::link) {
      std::vector<std::uint32_t> others;
      if (fault.other) others = fault.other->among(experiment.peers);
      incidents.emplace_back(PoorLinks{peers, from, to, fault.link, std::move(others)});
      continue;
    }
    for (const std::uint32_t peer : peers) {
      switch (fault.kind) {
        case Fault::Kind::slow:
          incidents.emplace_back(
              Slow{peer, fault.factor, from, to,
                   training::chance_of_slowness(experiment.seed, peer, slownesses[peer]++)});
          break;
        case Fault::Kind::pause:
          if (!fault.every) incidents.emplace_back(Pause{peer, from, to});
          break;
        case Fault::Kind::crash:
        case Fault::Kind::leave:
          incidents.push_back(incident_of(Departures(experiment, place, peer).next().value(), peer));
          break;
        case Fault::Kind::poison:
          incidents.emplace_back(Poison{peer, from, to, 1, poison_named(fault.poison).value()});
          break;
        case Fault::Kind::join:
        case Fault::Kind::churn:  // recurring_of()
        case Fault::Kind::link:
          break;
      }
    }
  }
  return incidents;
}

std::vector<Recurring> recurring_of(const Experiment& experiment) {
  std::vector<Recurring> recurring;
  const std::optional<std::uint32_t> spared = spared_by_churn(experiment);
  for (std::size_t place = 0; place < experiment.faults.size(); ++place) {
    const Fault& fault = experiment.faults[place];
    for (const std::uint32_t peer : fault.peer.among(experiment.peers)) {
      if (fault.kind == Fault::Kind::pause && fault.every)
        recurring.push_back(recurring_pauses(experiment, place, peer));
      if (fault.kind == Fault::Kind::churn && peer != spared)
        recurring.push_back(recurring_departures(experiment, place, peer));
    }
  }
  return recurring;
}

std::string warning_for_simulation(const Experiment& experiment) {
  for (const training::OwnSettings& own : experiment.own) {
    const auto peers = own.peers.among(experiment.peers);
    const bool several = std::ranges::all_of(peers, [&](std::uint32_t peer) {
      return training::of_peer(experiment, peer).training.devices.size() > 1;
    });
    for (const auto& [key, value] : own.values) {
      if (key == "training.device" || (key == "training.devices" && !several))
        return "the devices in [[peer]] have no effect in virtual time: the processors of this machine "
               "compute for all peers";
    }
  }
  return "";
}

}  // namespace starling::lab
