#include "lab/recurrence.h"

#include <algorithm>

#include "base/check.h"

namespace starling::lab {
namespace {

using training::Experiment;
using training::Fault;

constexpr std::uint64_t kRecurrences =
    37;  // the purpose of these random numbers (training/runs/experiment/slowness.cc has another)
// An upper limit, so that times fit into nanoseconds; no run is as long.
constexpr double kLatest = 4e9;  // seconds

Random chance_of(const Experiment& experiment, std::size_t fault, std::uint32_t peer) {
  return Random(experiment.seed).split(kRecurrences).split(fault).split(peer);
}

// nullopt if that is later than any run lasts.
std::optional<Duration> later_by(Duration time, double seconds) {
  const double at = to_seconds(time) + seconds;
  if (at >= kLatest) return std::nullopt;
  return time + std::max(Duration{1}, from_seconds(seconds));
}

}  // namespace

Pauses::Pauses(const Experiment& experiment, std::size_t fault, std::uint32_t peer)
    : fault_(experiment.faults.at(fault)), at_(fault_.from) {
  STARLING_CHECK(fault_.kind == Fault::Kind::pause && fault_.concerns(peer));
  if (!fault_.every || fault_.peer.is_one()) return;
  *at_ += from_seconds(chance_of(experiment, fault, peer).uniform(0, to_seconds(*fault_.every)));
}

std::optional<Pauses::Pause> Pauses::next() {
  if (!at_ || (fault_.to && *at_ >= *fault_.to)) return std::nullopt;
  Pause pause{*at_, fault_.to};
  if (fault_.every) {
    pause.to = std::min(*at_ + *fault_.length, fault_.to.value_or(Duration::max()));
    at_ = later_by(*at_, to_seconds(*fault_.every));
  } else {
    at_.reset();
  }
  return pause;
}

Departures::Departures(const Experiment& experiment, std::size_t fault, std::uint32_t peer)
    : fault_(experiment.faults.at(fault)), random_(chance_of(experiment, fault, peer)), since_(fault_.from) {
  STARLING_CHECK(fault_.concerns(peer));
}

std::optional<Departures::Departure> Departures::next() {
  if (!since_) return std::nullopt;
  if (fault_.kind != Fault::Kind::churn) {
    Departure once{*since_, fault_.kind == Fault::Kind::crash, std::nullopt};
    if (fault_.back_after) once.back = once.at + *fault_.back_after;
    since_.reset();
    return once;
  }
  const Fault::Churn& churn = fault_.churn;
  const double rate = churn.crashes_per_minute + churn.leaves_per_minute;
  const auto at = later_by(*since_, 60 * random_.exponential() / rate);
  since_.reset();
  if (!at || (fault_.to && *at >= *fault_.to)) return std::nullopt;
  Departure departure{*at, random_.uniform() * rate < churn.crashes_per_minute, std::nullopt};
  if (churn.back_after)
    since_ = departure.back = later_by(*at, random_.exponential() * to_seconds(*churn.back_after));
  return departure;
}

std::optional<std::uint32_t> spared_by_churn(const Experiment& experiment) {
  std::optional<std::uint32_t> first;  // of those that are there from the start
  for (std::uint32_t peer = 0; peer < experiment.peers; ++peer) {
    const bool concerned = std::any_of(
        experiment.faults.begin(), experiment.faults.end(),
        [peer](const Fault& fault) { return fault.kind == Fault::Kind::churn && fault.concerns(peer); });
    if (!concerned) return std::nullopt;
    if (!first && !joins_late(experiment, peer)) first = peer;
  }
  return first;
}

bool joins_late(const Experiment& experiment, std::uint32_t peer) {
  return std::any_of(experiment.faults.begin(), experiment.faults.end(), [peer](const Fault& fault) {
    return fault.kind == Fault::Kind::join && fault.concerns(peer);
  });
}

std::uint32_t beginning_together(const Experiment& experiment) {
  std::uint32_t count = 0;
  for (std::uint32_t peer = 0; peer < experiment.peers; ++peer) count += joins_late(experiment, peer) ? 0 : 1;
  return count;
}

}  // namespace starling::lab
